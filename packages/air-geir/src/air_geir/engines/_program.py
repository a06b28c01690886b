"""What an engine compiles: a graph, and how the caller's arguments and results map onto it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from air_geir.ir import DataType, Dim, Expr, Graph, Placement


@dataclass(frozen=True, slots=True)
class ArgInput:
    """A graph input that is one of the caller's tensors."""

    arg: int
    """Position among the caller's arguments."""
    contiguous: bool = True
    """False when the caller's tensor is known to be strided: a dense copy is made for each call."""
    parameter: bool = False
    """True for weights: their address stays, so an engine may fix it once."""
    static: bool = False
    """True for tensors whose address was promised to stay (`mark_static_address`)."""


@dataclass(frozen=True, slots=True)
class SymInput:
    """A graph input that is one size: a scalar int64 tensor on the host."""

    value: Dim


@dataclass(frozen=True, slots=True)
class SymPackInput:
    """A graph input that is several sizes: an int64 vector on the host."""

    values: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class SeedInput:
    """A graph input that carries the random generator's seed, read anew for each call."""


@dataclass(frozen=True, slots=True)
class OffsetInput:
    """A graph input that carries the random generator's offsets, one per random operator, advanced by each call."""

    counts: tuple[Dim, ...]
    """How many numbers each random operator draws; the generator advances by the next multiple of four."""


InputBinding: TypeAlias = "ArgInput | SymInput | SymPackInput | SeedInput | OffsetInput"


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """A result that the graph computes."""

    index: int
    """Position among the graph's outputs."""


@dataclass(frozen=True, slots=True)
class ArgOutput:
    """A result that is one of the caller's own tensors."""

    arg: int


@dataclass(frozen=True, slots=True)
class ViewOutput:
    """A result that is a view of one of the caller's tensors."""

    arg: int
    size: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class SizeOutput:
    """A result that is a number computed from sizes."""

    value: Dim


@dataclass(frozen=True, slots=True)
class ConstantOutput:
    """A result known at compile time, usually None."""

    value: object = None


OutputBinding: TypeAlias = "GraphOutput | ArgOutput | ViewOutput | SizeOutput | ConstantOutput"


@dataclass(frozen=True, slots=True)
class SymbolSource:
    """Where the value of a symbol is read from at run time."""

    arg: int
    dim: int | None = None
    """The dim of a tensor argument; None when the argument is the number itself."""


@dataclass
class Program:
    """A graph with its calling convention.

    Attributes:
        inputs: one binding per Data node, in the order of their indices.
        outputs: one binding per result of the caller.
        assigned: graph output -> caller's argument whose memory receives it (an in-place update).
        symbols: where each symbol's value comes from.
        num_args: how many arguments the caller passes.
    """

    graph: Graph
    inputs: tuple[InputBinding, ...]
    outputs: tuple[OutputBinding, ...]
    num_args: int
    assigned: dict[int, int] = field(default_factory=dict)
    symbols: Mapping[str, SymbolSource] = field(default_factory=dict)
    hints: Mapping[str, int] = field(default_factory=dict)
    """The value each symbol had in the example the graph was traced with."""

    @property
    def is_static(self) -> bool:
        """True when every graph input has a static shape."""
        return all(node.output.desc.is_static for node in self.graph.inputs)

    @property
    def input_placements(self) -> list[Placement]:
        """Where each graph input lives."""
        places = [node.output.desc.placement for node in self.graph.inputs]
        return [Placement.DEVICE if place is None else place for place in places]

    @property
    def output_dtypes(self) -> list[DataType]:
        """The type of each graph output."""
        return [port.desc.dtype for port in self.graph.outputs]

    def output_shapes(self) -> list[tuple[int, ...]]:
        """The shape of each graph output as files spell it."""
        return [port.desc.file_shape() for port in self.graph.outputs]

    def used_symbols(self) -> set[str]:
        """Symbols whose values a call needs."""
        dims: list[Dim] = []
        for binding in (*self.inputs, *self.outputs):
            dims.extend(_dims_of(binding))
        return {name for dim in dims if isinstance(dim, Expr) for name in dim.symbols()}


def _dims_of(binding: InputBinding | OutputBinding) -> tuple[Dim, ...]:
    if isinstance(binding, (SymInput, SizeOutput)):
        return (binding.value,)
    if isinstance(binding, SymPackInput):
        return binding.values
    if isinstance(binding, OffsetInput):
        return binding.counts
    if isinstance(binding, ViewOutput):
        return (*binding.size, *binding.stride, binding.offset)
    return ()
