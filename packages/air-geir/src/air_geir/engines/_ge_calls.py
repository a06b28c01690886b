"""The calls of the binding, with Python's types: the session of the process, its graphs, and memory from torch."""

from __future__ import annotations

import atexit
import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from air_geir.engines import native
from air_geir.errors import EngineError, EngineUnavailableError, OptionError

_TAKE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
_NOT_OF_THE_ENGINE = frozenset({"ge_run_with_torch_npu"})
"""Options for the extension itself, which keeps them from the engine."""
_ZERO_COPY = {"ge.exec.memoryOptimizationPolicy": "MemoryPriority", "ge.exec.reuseZeroCopyMemory": "1"}
"""Options of every graph that runs in the caller's memory; the extension adds the same."""
_GIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def npu() -> Any:
    """`torch.npu`, which torch_npu adds."""
    return getattr(torch, "npu")  # noqa: B009  # unknown to the type checker


class Described(ctypes.Structure):
    """One tensor of a call, as session.cpp has it."""

    _fields_ = (
        ("at", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("type", ctypes.c_int32),
        ("placement", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("padding", ctypes.c_int32),
        ("dims", ctypes.c_int64 * 32),
    )
    at: int | None
    type: int
    rank: int
    dims: Any

    @classmethod
    def of(cls, tensor: torch.Tensor, kind: int, placement: int) -> Described:
        """A dense tensor."""
        size = tensor.shape
        return cls(
            tensor.data_ptr() or _NOWHERE,
            tensor.nbytes,
            kind,
            placement,
            len(size),
            0,
            (ctypes.c_int64 * 32)(*size),
        )


class Row:
    """Tensors of fixed sizes, described once: a call writes their addresses."""

    def __init__(self, described: Sequence[Described]) -> None:
        self.array = (Described * len(described))(*described)
        self._each = list(self.array)  # views of the array

    def at(self, tensors: Sequence[torch.Tensor]) -> Row:
        """The same row, over other memory."""
        for one, tensor in zip(self._each, tensors, strict=True):
            one.at = tensor.data_ptr() or _NOWHERE
        return self


_NOWHERE = 64
"""An address for tensors without elements: nothing is read there, and none at all would mean no tensor."""


class Wanted(ctypes.Structure):
    """Bytes of memory that a graph of fixed sizes wants, as session.cpp has it."""

    _fields_ = (
        ("constants", ctypes.c_size_t),
        ("features", ctypes.c_size_t),
        ("fixed", ctypes.c_size_t),
        ("refreshable", ctypes.c_int32),
        ("padding", ctypes.c_int32),
    )
    constants: int
    features: int
    fixed: int
    refreshable: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What the engine says of a compiled graph."""

    shapes: list[tuple[int, ...]] | None
    """Of the results; None where they follow from the inputs."""
    constants: int
    features: int
    fixed: int
    """Of the features, those that stay in one place; all of them where none may move."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The results of a call, and the memory the engine took for them, by address."""

    results: Sequence[Described]
    blocks: Mapping[int, torch.Tensor]


class Memory:
    """Blocks of torch's caching allocator that the engine holds on one stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._held: dict[int, torch.Tensor] = {}
        self.taken: dict[int, torch.Tensor] | None = None
        """Of the call that runs: the results lie in these. None between calls."""
        self.failure: Exception | None = None
        self.take, self.give = _TAKE(self._take), _GIVE(self._give)

    def _take(self, size: int) -> int:
        try:
            with npu().stream(self._stream):
                block = torch.empty(max(size, 1), dtype=torch.uint8, device=self._stream.device)
        except Exception as error:  # an exception cannot pass through C
            self.failure = error
            return 0
        self._stream.npu_stream  # noqa: B018  # empties torch_npu's queue: work there may still read this block
        address = block.data_ptr()
        self._held[address] = block
        if self.taken is not None:
            self.taken[address] = block
        return address

    def _give(self, address: int) -> None:
        self._held.pop(address, None)


class Calls:
    """The session of this process."""

    def __init__(self, library: ctypes.CDLL, options: Mapping[str, str]) -> None:
        library.air_ge_error.restype = ctypes.c_char_p
        self._library = library
        self.options = dict(options)
        self._streams: dict[int, Memory] = {}
        told = {key: value for key, value in options.items() if key not in _NOT_OF_THE_ENGINE}
        own = {**told, "ge.session_device_id": options["ge.exec.deviceId"]}
        failed = library.air_ge_start(*_pairs(told), *_pairs(own))
        self._check(failed, "start its session", "of this process")

    def add(self, number: int, name: str, model: bytes, options: Mapping[str, str]) -> None:
        """Hand a graph over."""
        size = ctypes.c_size_t(len(model))
        pairs = _pairs({**_ZERO_COPY, **options})
        failed = self._library.air_ge_add(number, name.encode(), model, size, *pairs)
        self._check(failed, "add", name)

    def compile(self, number: int, name: str) -> None:
        """Compile a graph."""
        self._check(self._library.air_ge_compile(number), "compile", name)

    def summary(self, number: int, results: int, name: str) -> Summary:
        """What the engine says of it."""
        static = ctypes.c_int()
        wanted, count = Wanted(), ctypes.c_size_t()
        found = (Described * max(results, 1))()
        told = (
            ctypes.byref(static),
            ctypes.byref(wanted),
            found,
            ctypes.c_size_t(results),
            ctypes.byref(count),
        )
        failed = self._library.air_ge_summary(number, *told)
        self._check(failed, "summarize", name)
        if static.value and count.value != results:
            raise EngineError(
                f"the graph engine says graph {name} has {count.value} results, it has {results}"
            )
        shapes = [tuple(one.dims[: one.rank]) for one in found[:results]] if static.value else None
        fixed = wanted.fixed if wanted.refreshable else wanted.features
        return Summary(shapes, wanted.constants, wanted.features, fixed)

    def give_memory(self, number: int, summary: Summary, name: str) -> list[torch.Tensor]:
        """Memory for constants, and for what between operators stays in one place, for as long as the graph lives."""
        moves = summary.fixed != summary.features
        features = self._library.air_ge_fixed_features if moves else self._library.air_ge_features
        return [
            self._give(number, size, give, name)
            for size, give in ((summary.constants, self._library.air_ge_constants), (summary.fixed, features))
            if size
        ]

    def give_passing_memory(self, number: int, summary: Summary, name: str) -> torch.Tensor | None:
        """Memory for the rest of what is between operators, for one run: others take it afterwards, in stream order."""
        size = summary.features - summary.fixed
        return self._give(number, size, self._library.air_ge_refreshable_features, name) if size else None

    def _give(self, number: int, size: int, give: Any, name: str) -> torch.Tensor:
        try:
            made = torch.empty(size, dtype=torch.uint8, device="npu")
        except torch.OutOfMemoryError as error:
            raise _no_memory(error, name) from error
        known = ctypes.c_void_p(made.data_ptr()), ctypes.c_size_t(made.nbytes)
        self._check(give(number, *known), "give memory to", name)
        return made

    def run(self, number: int, inputs: Row, results: Row, name: str) -> Taken:
        """Run on the current stream; results without an address get memory on the way."""
        stream = npu().current_stream()
        memory = self._served(stream, name)
        taken: dict[int, torch.Tensor] = {}
        memory.taken, memory.failure = taken, None
        given, found = inputs.array, results.array
        counts = ctypes.c_size_t(len(given)), ctypes.c_size_t(len(found))
        handle = ctypes.c_void_p(stream.npu_stream)
        failed = self._library.air_ge_run(number, handle, given, counts[0], found, counts[1])
        memory.taken = None
        if failed and memory.failure is not None:
            raise _no_memory(memory.failure, name) from memory.failure
        self._check(failed, "run", name)
        return Taken(list(found), taken)

    def remove(self, number: int) -> None:
        """Forget a graph."""
        self._library.air_ge_remove(number)

    def stop(self) -> None:
        """End the session."""
        self._library.air_ge_stop()

    def _served(self, stream: Any, name: str) -> Memory:
        """Our allocator on a stream: said at each call, since another user of the engine may have set its own."""
        memory = self._streams.get(stream.npu_stream) or Memory(stream)
        handle = ctypes.c_void_p(stream.npu_stream)
        self._check(self._library.air_ge_allocator(handle, memory.take, memory.give), "give memory to", name)
        self._streams[stream.npu_stream] = memory
        return memory

    def _check(self, failed: int, doing: str, name: str) -> None:
        if failed:
            said = self._library.air_ge_error().decode(errors="replace").strip()
            raise EngineError(
                f"the graph engine failed to {doing} graph {name}: {said or f'error {failed:#x}'}",
                advice="air_geir.verify names broken rules; ASCEND_GLOBAL_LOG_LEVEL=1 shows the engine's own log",
            )


def over(block: torch.Tensor, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A dense tensor in memory that was taken as bytes; it keeps the memory alive."""
    return block[: math.prod(sizes) * dtype.itemsize].view(dtype).view(tuple(sizes))


def _no_memory(error: Exception, name: str) -> EngineError:
    return EngineError(
        f"there is no memory for graph {name}: {str(error).partition(chr(10))[0]}",
        advice="free tensors, take smaller batches, or close graphs that are no longer called",
    )


def _pairs(options: Mapping[str, str]) -> tuple[Any, ctypes.c_size_t]:
    flat = [text.encode() for pair in options.items() for text in pair]
    return (ctypes.c_char_p * max(len(flat), 1))(*flat), ctypes.c_size_t(len(options))


_calls: list[Calls] = []


def started(options: Mapping[str, str]) -> Calls:
    """The session, started by the first graph; later graphs must want the same options."""
    if not _calls:
        engine = native.runner()
        if engine is None:
            raise EngineUnavailableError(f"{native.LIBRARY} cannot be loaded", advice="install CANN")
        npu().current_stream()
        _calls.append(Calls(native.library(engine), options))
        atexit.register(_calls[0].stop)
    known = _calls[0].options
    changed = [key for key in sorted(options.keys() | known.keys()) if options.get(key) != known.get(key)]
    if changed:
        raise OptionError(
            "options of the graph engine's session cannot change once a graph was compiled: "
            + "; ".join(
                f"{k} = {options.get(k, 'unset')} (the first graph set {known.get(k, 'nothing')})"
                for k in changed
            ),
            advice="give every graph of the process the same ge_config, fusion_config and device, or use two processes",
        )
    return _calls[0]
