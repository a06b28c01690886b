"""Gives the intermediate blocks of a recording a place in one shared piece of memory.

Blocks are placed in the order the tasks ran, best fit first, and a block's place is free again after the
last task that touches it.  Two rules make the reuse safe when streams run side by side: a place is handed
on only within one stream, and a block that several streams touch keeps its place for good.  All shape keys
and all graphs of a runtime share the arena, because one replay runs at a time.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import torch

from air_aclgraph.host._stand_ins import Block

ALIGNMENT: Final = 64


@dataclass(frozen=True)
class Layout:
    """Where each block goes, and how much memory that takes."""

    offsets: dict[int, int]
    nbytes: int


@dataclass
class _FreeList:
    """Free places of one stream, by offset."""

    places: list[tuple[int, int]] = field(default_factory=list)

    def take(self, size: int) -> int | None:
        fitting = [(length, offset) for offset, length in self.places if length >= size]
        if not fitting:
            return None
        length, offset = min(fitting)
        self.places.remove((offset, length))
        if length > size:
            self.give(offset + size, length - size)
        return offset

    def give(self, offset: int, length: int) -> None:
        merged = (offset, length)
        kept = []
        for place in self.places:
            if place[0] + place[1] == merged[0]:
                merged = (place[0], place[1] + merged[1])
            elif merged[0] + merged[1] == place[0]:
                merged = (merged[0], merged[1] + place[1])
            else:
                kept.append(place)
        kept.append(merged)
        self.places = kept


def plan(blocks: Iterable[tuple[int, Block]], steps: int) -> Layout:
    """Places every block; linear in the number of blocks times the number of free places."""
    starts: list[list[int]] = [[] for _ in range(steps + 1)]
    ends: list[list[int]] = [[] for _ in range(steps + 1)]
    by_key = dict(blocks)
    for key, block in by_key.items():
        starts[block.first].append(key)
        if len(block.streams) == 1:
            ends[max(block.last, block.first)].append(key)
    offsets: dict[int, int] = {}
    free: dict[int, _FreeList] = {}
    top = 0
    for index in range(steps + 1):
        for key in starts[index]:
            block = by_key[key]
            size = _aligned(block.nbytes)
            found = free.setdefault(block.stream, _FreeList()).take(size)
            if found is None:
                found = top
                top += size
            offsets[key] = found
        for key in ends[index]:
            block = by_key[key]
            free[block.stream].give(offsets[key], _aligned(block.nbytes))
    return Layout(offsets, top)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def place_in(chunk: torch.UntypedStorage, offset: int, nbytes: int) -> torch.UntypedStorage:
    """A part of the chunk as a storage of its own, which keeps the chunk alive."""
    memory = (ctypes.c_byte * nbytes).from_address(chunk.data_ptr() + offset)
    memory.chunk = chunk  # type: ignore[attr-defined]  # the storage holds the array, the array the chunk
    return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()


@dataclass(eq=False)
class Chunk:
    """A piece of the shared memory; it goes with the last recording that has it."""

    storage: torch.UntypedStorage


@dataclass
class Arena:
    """Memory that all recordings of a runtime share; it grows by a new chunk, never by moving one."""

    chunks: weakref.WeakSet[Chunk] = field(default_factory=weakref.WeakSet)

    def reserve(self, nbytes: int) -> Chunk:
        """A chunk of at least `nbytes`: the smallest that fits, or a new one. It stays as long as somebody has it."""
        fitting = [chunk for chunk in self.chunks if chunk.storage.nbytes() >= nbytes]
        if fitting:
            return min(fitting, key=lambda chunk: chunk.storage.nbytes())
        chunk = Chunk(torch.UntypedStorage(nbytes))
        self.chunks.add(chunk)
        return chunk

    @property
    def nbytes(self) -> int:
        """Bytes held at the moment."""
        return sum(chunk.storage.nbytes() for chunk in self.chunks)
