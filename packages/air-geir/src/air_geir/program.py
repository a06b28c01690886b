"""What an engine compiles: a graph, and how the arguments and results of the caller map onto it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch.utils._pytree import tree_leaves

from air_geir.ir import DataType, Dim, Expr, Graph, Node, Placement, Port

_VIEWS = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "ExpandDims", "Identity", "Bitcast"})


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
    turned: bool = False
    """True when torch has yet to conjugate or negate it (a lazy view): an engine reads memory as it lies."""


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
    """A graph input that carries the random generator's seed, read again for each call."""


@dataclass(frozen=True, slots=True)
class OffsetInput:
    """A graph input that carries the random generator's offsets, one per random operator, advanced by each call."""

    counts: tuple[Dim, ...]
    """How many numbers each random operator draws; the generator advances by the next multiple of four."""


@dataclass(frozen=True, slots=True)
class ViewInput:
    """A graph input that is a view of a caller's tensor, made before the graph runs and handed over dense."""

    step: int
    """Position among the program's steps before the run."""
    arg: int
    """Whose memory it is."""
    turned: bool = False
    """As that of `ArgInput`."""


InputBinding: TypeAlias = "ArgInput | SymInput | SymPackInput | SeedInput | OffsetInput | ViewInput"


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
    """A result that the caller's function makes itself after the graph ran: a view of an argument or of a result."""

    step: int
    """Position among the program's steps after the run."""


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
class HostStep:
    """One call of torch that the caller's function makes, before or after the graph runs: a view, as a rule."""

    function: Callable[..., Any]
    source: ArgOutput | GraphOutput | ViewOutput
    """The first argument; a `ViewOutput` is an earlier step."""
    arguments: tuple[Any, ...] = ()
    """The others; sizes are `Dim`s, also inside lists."""
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def dims(self) -> Iterator[Dim]:
        """Every size among the arguments."""
        for leaf in tree_leaves((self.arguments, dict(self.keywords))):
            if isinstance(leaf, Expr):
                yield leaf


@dataclass(frozen=True, slots=True)
class SymbolSource:
    """Where the value of a symbol is read from at run time."""

    arg: int
    """Which argument of the caller; for a size that only the graph knows, which output of the graph."""
    dim: int | None = None
    """The dim of a tensor argument; None when the argument is the number itself."""
    stride: bool = False
    """True when the symbol is the stride of that dim."""
    offset: bool = False
    """True when the symbol is where the argument begins in its storage."""
    computed: bool = False
    """True when an output of the graph carries the symbol: it is known after the run."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What eager gives for one result: its layout, and whose memory it lies in; None where that is not known."""

    where: str
    """The node, its operator and the line of the user's program."""
    size: tuple[Dim | None, ...]
    stride: tuple[Dim | None, ...]
    offset: Dim | None
    """Bytes from the start of the storage; for a view of an argument, from the start of the argument, as a rule."""
    memory: tuple[str, int]
    """`("argument", position)`, or `("result", number)`: results with one number share their memory."""
    absolute: bool = True
    """False when the offset counts from the start of the argument."""
    device: str | None = None
    """The kind of the device."""


@dataclass
class Program:
    """A graph with its calling convention.

    Attributes:
        inputs: one binding per Data node, in the order of their indices.
        outputs: one binding per result of the caller.
        assigned: graph output -> caller's argument whose memory receives it (an in-place update).
        symbols: where each symbol's value comes from.
        num_args: how many arguments the caller passes.
        before: what the caller's function makes of its arguments for the graph.
        after: what it makes of arguments and results for its caller.
        promises: what eager gives, one per result and per argument; None for what is not a tensor.
        strided: arguments that receive an output and do not lie dense: an engine writes into dense memory.
    """

    graph: Graph
    inputs: tuple[InputBinding, ...]
    outputs: tuple[OutputBinding, ...]
    num_args: int
    assigned: dict[int, int] = field(default_factory=dict)
    symbols: Mapping[str, SymbolSource] = field(default_factory=dict)
    hints: Mapping[str, int] = field(default_factory=dict)
    """The value each symbol had in the example the graph was traced with."""
    before: tuple[HostStep, ...] = ()
    after: tuple[HostStep, ...] = ()
    promises: tuple[Promise | None, ...] = ()
    argument_promises: tuple[Promise | None, ...] = ()
    strided: set[int] = field(default_factory=set)

    def written_args(self) -> set[int]:
        """Arguments whose memory the graph writes: those that receive an output, and those an operator writes into."""
        found = set(self.assigned.values())
        for node, binding in zip(self.graph.inputs, self.inputs, strict=True):
            if isinstance(binding, ArgInput) and is_written(node.output):
                found.add(binding.arg)
        return found

    @property
    def is_idle(self) -> bool:
        """True when the graph computes nothing: every result is an argument, a view of one, or known."""
        end = self.graph.net_output
        return not end.inputs and not end.control_inputs and all(node is end for node in self.graph)

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
        for step in (*self.before, *self.after):
            dims.extend(step.dims())
        return {name for dim in dims if isinstance(dim, Expr) for name in dim.symbols()}


def is_written(port: Port) -> bool:
    """True when an operator writes into the memory of this value."""
    return any(
        user.prototype is not None and user.input_names[slot] in user.prototype.refs.values()
        for user, slot in port.uses
    )


def keeps_its_value(port: Port) -> bool:
    """True when no operator writes into the memory of this value, or into what it may be a view of.

    Such a value can be read later than the model reads it.
    """
    while not is_written(port):
        base = port.node.inputs[0] if port.node.op_type in _VIEWS else None
        if base is None:
            return True
        port = base
    return False


def readers_of(port: Port) -> list[Node]:
    """The operators that read this value, or what may be a view of it."""
    found = list(port.users)
    for node in found:
        if node.op_type in _VIEWS:
            found += [user for user in node.output.users if user not in found]
    return found


def _dims_of(binding: InputBinding | OutputBinding) -> tuple[Dim, ...]:
    if isinstance(binding, (SymInput, SizeOutput)):
        return (binding.value,)
    if isinstance(binding, SymPackInput):
        return binding.values
    if isinstance(binding, OffsetInput):
        return binding.counts
    return ()
