"""Which node touches which memory: the accesses of a graph, by storage and byte range.

Views and in-place operators share the storage of their base. The byte range of a view is taken relative to its
base from the fake tensors' strides; where a size is symbolic or the facts are missing, a view counts as its
whole base, so two accesses are called disjoint only when they provably are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, Node

from air_graph import Effects, effects_of, named_arguments, nodes_in, storage_key, uses_of
from air_graph import Region as StridedRegion
from air_streams import _library

Region = tuple[float, float]
"""Bytes [low, high) of a storage."""

WHOLE: Final[Region] = (-math.inf, math.inf)


@dataclass(eq=False, slots=True)
class Storage:
    """One block of memory. `allocator` is the node that made it; None for inputs and constants."""

    name: str
    allocator: Node | None
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """One node's touch of one storage. `covers`: a write which leaves nothing of the old content in its region."""

    storage: Storage
    region: Region
    reads: bool
    writes: bool
    covers: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """Where a value lives. `exact`: the region is all the value may touch, not only an upper bound."""

    storage: Storage
    region: Region = WHOLE
    exact: bool = True


@dataclass(frozen=True, slots=True)
class _Value:
    """What a node's result occupies; several for operators which return a tuple or list."""

    parts: tuple[_Part, ...]
    is_sequence: bool = False


@dataclass
class Memory:
    """The accesses of every node in program order, and which storages a node's value lives in."""

    accesses: dict[Node, tuple[Access, ...]] = field(default_factory=dict)
    values: dict[Node, _Value] = field(default_factory=dict)
    last_use: dict[Storage, Node] = field(default_factory=dict)

    def storages(self, node: Node) -> tuple[Storage, ...]:
        """The storages of a node's value."""
        value = self.values.get(node)
        return tuple(part.storage for part in value.parts) if value is not None else ()


def without(regions: Sequence[Region], hole: Region) -> list[Region]:
    """The regions less the bytes of `hole`."""
    rest: list[Region] = []
    for low, high in regions:
        pieces = ((low, min(high, hole[0])), (max(low, hole[1]), high))
        rest.extend(piece for piece in pieces if piece[0] < piece[1])
    return rest


def common(regions: Sequence[Region], region: Region) -> tuple[Region, ...]:
    """The parts of the regions that lie in `region`."""
    pieces = ((max(low, region[0]), min(high, region[1])) for low, high in regions)
    return tuple(piece for piece in pieces if piece[0] < piece[1])


def _extent(val: Any) -> tuple[int, int] | None:
    """First and one-past-last byte of a tensor within its storage, when both are known numbers."""
    if not isinstance(val, torch.Tensor) or val.layout != torch.strided:
        return None
    region = StridedRegion.of(val)
    if not region.is_static:
        return None
    start = int(region.offset)
    return start, start if region.is_empty() else int(region.end())


def _is_dense(val: Any) -> bool:
    extent = _extent(val)
    return extent is not None and extent[1] - extent[0] == val.numel() * val.element_size()


def part_of_view(base: _Part, base_val: Any, view_val: Any) -> _Part:
    """The view's bytes in the frame of its base; only the *relative* position of the two fakes is used."""
    outer, inner = _extent(base_val), _extent(view_val)
    if outer is None or inner is None or storage_key(base_val) != storage_key(view_val):
        return _Part(base.storage, base.region, exact=False)
    low = (base.region[0] if base.region != WHOLE else outer[0]) + inner[0] - outer[0]
    return _Part(base.storage, (low, low + inner[1] - inner[0]), _is_dense(view_val))


class _Reader:
    def __init__(self) -> None:
        self.memory = Memory()

    def _fresh(self, node: Node, suffix: str = "") -> _Part:
        return _Part(Storage(node.name + suffix, node))

    def external(self, node: Node) -> None:
        if isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
            return
        self.memory.values[node] = _Value((_Part(Storage(node.name, None)),))

    def _use(self, node: Node, accesses: Sequence[Access]) -> None:
        self.memory.accesses[node] = tuple(accesses)

    def _note_use(self, node: Node) -> None:
        for argument in node.all_input_nodes:
            for storage in self.memory.storages(argument):
                self.memory.last_use[storage] = node
        for storage in self.memory.storages(node):
            self.memory.last_use.setdefault(storage, node)

    def getitem(self, node: Node) -> None:
        base, index = node.args
        if not isinstance(base, Node) or base not in self.memory.values:
            return
        value = self.memory.values[base]
        if value.is_sequence and len(value.parts) == 1 and isinstance(index, int):
            part = value.parts[0]
            source = _sequence_base(base)
            if source is not None:
                part = part_of_view(part, source.meta.get("val"), node.meta.get("val"))
            self.memory.values[node] = _Value((part,))
        elif value.is_sequence and isinstance(index, int) and -len(value.parts) <= index < len(value.parts):
            self.memory.values[node] = _Value((value.parts[index],))
        else:
            self.memory.values[node] = value

    def operator(self, node: Node, op: OpOverload) -> None:
        effects = effects_of(op)
        given = named_arguments(node, op)
        accesses: list[Access] = []
        members: dict[str, list[tuple[Node, _Part]]] = {}
        for arg in effects.arguments:
            for tensor in filter(self.memory.values.__contains__, nodes_in(given.get(arg.name))):
                for part in self.memory.values[tensor].parts:
                    if arg.reads or arg.writes:
                        covers = arg.writes and not arg.reads and part.exact
                        accesses.append(Access(part.storage, part.region, arg.reads, arg.writes, covers))
                    for name in arg.aliases:
                        members.setdefault(name, []).append((tensor, part))
        self._results(node, op, effects, members, accesses)
        self._use(node, accesses)

    def _results(
        self,
        node: Node,
        op: OpOverload,
        effects: Effects,
        members: dict[str, list[tuple[Node, _Part]]],
        accesses: list[Access],
    ) -> None:
        parts: list[_Part] = []
        kinds = [str(result.type) for result in op._schema.returns]
        for index, (sets, kind) in enumerate(zip(effects.returns, kinds, strict=False)):
            if "Tensor" not in kind:
                continue
            aliased = list(dict.fromkeys(member for name in sorted(sets) for member in members.get(name, ())))
            if aliased:
                parts.extend(self._aliases(node, aliased, single=len(kinds) == 1 and kind == "Tensor"))
                if not effects.may_copy:
                    continue
            for suffix in self._fresh_names(node, index, kind, len(kinds)):
                part = self._fresh(node, suffix)
                parts.append(part)
                accesses.append(_creation(part))
        if parts:
            self.memory.values[node] = _Value(tuple(parts), len(kinds) > 1 or "List" in kinds[0])

    def _aliases(self, node: Node, aliased: list[tuple[Node, _Part]], single: bool) -> Iterator[_Part]:
        written = isinstance(node.target, OpOverload) and bool(effects_of(node.target).writes)
        for base, part in aliased:
            if single and not written:
                part = part_of_view(part, base.meta.get("val"), node.meta.get("val"))
            yield part

    def _fresh_names(self, node: Node, index: int, kind: str, results: int) -> list[str]:
        if "List" not in kind:
            return [f".{index}" if results > 1 else ""]
        val = node.meta.get("val")
        inner = val[index] if results > 1 and isinstance(val, (list, tuple)) else val
        count = len(inner) if isinstance(inner, (list, tuple)) else 1
        return [f".{index}.{item}" for item in range(count)]

    def call(self, node: Node) -> None:
        """A higher-order operator or a Python function: its results are new, its uses of arguments are asked for."""
        uses = dict.fromkeys((use.value, use.reads, use.writes) for use in uses_of(node))
        writes = any(written for _, _, written in uses)
        accesses = [
            Access(part.storage, part.region, read, written, False)
            for argument, read, written in uses
            if argument in self.memory.values
            for part in self.memory.values[argument].parts
        ]
        val = node.meta.get("val")
        if isinstance(val, (list, tuple)):
            parts = [self._fresh(node, f".{index}") for index in range(len(val))]
        elif isinstance(val, torch.Tensor) or (val is None and isinstance(node.target, HigherOrderOperator)):
            parts = [self._fresh(node)]
        else:
            parts = []
        accesses.extend(_creation(part) for part in parts)
        if parts:
            self.memory.values[node] = _Value(tuple(parts), isinstance(val, (list, tuple)))
        if accesses and (parts or writes):
            self._use(node, accesses)

    def read(self, node: Node) -> None:
        if node.op in ("placeholder", "get_attr"):
            self.external(node)
        elif node.op == "output":
            for result in node.all_input_nodes:
                for storage in self.memory.storages(result):
                    storage.is_output = True
        elif node.target in _library.STREAM_OPS:
            pass
        elif node.target is operator.getitem:
            self.getitem(node)
        elif isinstance(node.target, OpOverload):
            self.operator(node, node.target)
        else:
            self.call(node)
        self._note_use(node)


def _creation(part: _Part) -> Access:
    return Access(part.storage, part.region, reads=False, writes=True, covers=True)


def _sequence_base(node: Node) -> Node | None:
    """The tensor that a list-returning view (`split`, `unbind`) cuts up."""
    base = node.args[0] if isinstance(node.target, OpOverload) and node.target.is_view and node.args else None
    return base if isinstance(base, Node) else None


def read_memory(graph: Graph) -> Memory:
    """The accesses of every node of a graph."""
    reader = _Reader()
    for node in graph.nodes:
        reader.read(node)
    return reader.memory
