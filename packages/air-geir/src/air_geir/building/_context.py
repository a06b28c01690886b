"""What a converter works with: values in, operators out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, TypeAlias

import torch
from torch import fx

from air_geir import prototypes
from air_geir.building._infer import Shape, dtype_of, shape_of
from air_geir.building._limits import fitting, outside
from air_geir.building._memory import Memory
from air_geir.building._numbers import float_value
from air_geir.building._promote import computation_dtype
from air_geir.building._sizes import Sizes, add_input, dims_of
from air_geir.building._value import Number, Size, Value
from air_geir.building._widths import WIDER
from air_geir.errors import CannotConvert
from air_geir.ir import DataType, Dim, Expr, Format, Graph, Node, Placement, Port, TensorDesc, as_dim
from air_geir.program import InputBinding, OffsetInput, SeedInput

LowerBody: TypeAlias = (
    "Callable[[str, fx.GraphModule, Sequence[Any], Sequence[Value], list[Value] | None], Graph]"
)
Operand: TypeAlias = "Value | Sequence[Value] | Sequence[int] | int | None"

_RELATIONS = {
    "Equality": "Equal",
    "Unequality": "NotEqual",
    "StrictLessThan": "Less",
    "LessThan": "LessEqual",
    "StrictGreaterThan": "Greater",
    "GreaterThan": "GreaterEqual",
}
_UNSET: Any = object()
_current: ContextVar[Context] = ContextVar("air_geir_context")


class UseDecomposition(Exception):
    """A converter leaves this call to torch's decomposition."""


class Context:
    """Builds the operators of one graph, one torch operator at a time."""

    def __init__(
        self, graph: Graph, sizes: Sizes, outer: Context | None = None, more: list[Value] | None = None
    ) -> None:
        self.graph = graph
        self.sizes = sizes
        self.outer = outer
        """Builds the graph around this one, where this one is the body of a control-flow operator."""
        self.meta: Any = None
        """Torch's description of the result being converted: a fake tensor, or a tuple of them."""
        self.written: dict[str, Any] = {}
        """Arguments the operator being converted writes to, with the value (or values) they have afterwards."""
        self.lower_body: LowerBody | None = None
        """Lowers the body of a control-flow operator; set by whoever walks the graph."""
        self._memory: Callable[[], Memory] | None = None
        self._constants: dict[tuple[object, ...], Value] = {}
        self._made: set[Node] = set()
        self._seed: Value | None = None
        self._offsets: Value | None = None
        self._draws: list[Dim] = []
        # what a branch takes of the graph around it besides its operands; others take nothing
        self._more = more
        self._taken: dict[Port, Value] = {}

    # making operators -------------------------------------------------------------------------------------

    def emit(self, op_type: str, *inputs: Operand, **settings: Any) -> Value:
        """Adds an operator with one output and gives its value; the arguments are those of `emit_many`."""
        results = self.emit_many(op_type, *inputs, **settings)
        if len(results) != 1:
            raise ValueError(f"{op_type} gives {len(results)} values: use emit_many")
        return results[0]

    def emit_many(
        self,
        op_type: str | prototypes.Prototype,
        *inputs: Operand,
        dtype: torch.dtype | DataType | Sequence[torch.dtype | DataType] | None = None,
        shape: Any = _UNSET,
        num_outputs: int | None = None,
        attrs: Mapping[str, object] | None = None,
        subgraphs: Mapping[str, Graph] | None = None,
        **keywords: Any,
    ) -> tuple[Value, ...]:
        """Adds an operator and gives its outputs.

        Args:
            op_type: the operator type, or a prototype that no table has.
            inputs: one per input of the prototype, in order: a `Value`, a list of them for a dynamic input, None for
                an optional one; integers and lists of integers become int64 constants.
            dtype: type of the output(s), a `DataType` where torch has none of that meaning; left out, that of the
                first operand (bool for comparisons).
            shape: shape of the output, a list of shapes for several; left out, inferred for elementwise operators.
            num_outputs: how many outputs a dynamic output has.
            attrs, keywords: attributes by name; a keyword may also name an input.
        """
        prototype = op_type if isinstance(op_type, prototypes.Prototype) else prototypes.get(op_type)
        slots = list(inputs)
        given = dict(attrs or {})
        for name, value in keywords.items():
            at = prototype.input_index.get(name)
            if at is None or name in prototype.attr:
                given[name] = value
                continue
            slots.extend([None] * (at + 1 - len(slots)))
            slots[at] = value
        dynamic = {at for at, spec in enumerate(prototype.inputs) if spec.kind is prototypes.PortKind.DYNAMIC}
        slots.extend([None] * (max(dynamic, default=-1) + 1 - len(slots)))
        operands: list[Any] = [
            [] if at in dynamic and not slot else self._operand(slot) for at, slot in enumerate(slots)
        ]
        flat = [v for o in operands for v in (o if isinstance(o, list) else [o]) if v is not None]
        wider = WIDER.get(prototype.op_type, {})
        if any(value.dtype in wider for value in flat):
            return self._in_a_wider_type(wider, prototype, operands, flat, dtype, shape, num_outputs, given)
        ports: list[Any] = [[v.port for v in o] if isinstance(o, list) else o and o.port for o in operands]
        node = self.graph.add(prototype, *ports, attrs=given, num_outputs=num_outputs, subgraphs=subgraphs)
        self._made.add(node)
        return self._results(node, flat, dtype, shape)

    def _in_a_wider_type(
        self, wider: Mapping[torch.dtype, torch.dtype], prototype: prototypes.Prototype, operands: list[Any],
        flat: list[Value], dtype: Any, shape: Any, num_outputs: int | None, attrs: Mapping[str, object],
    ) -> tuple[Value, ...]:  # fmt: skip
        """The same operator on wider operands, and its results as they were wanted."""
        wide = [
            self.cast(value, wider.get(value.dtype, value.dtype)) if isinstance(value, Value) else value
            for value in operands
        ]
        told = dtype_of(prototype.op_type, flat) if dtype is None else dtype
        wanted: list[Any] = list(told) if isinstance(told, (list, tuple)) else [told]
        shapes = shape_of(prototype.op_type, flat) if shape is _UNSET else shape
        made = self.emit_many(
            prototype, *wide, dtype=[wider.get(one, one) for one in wanted], shape=shapes, num_outputs=num_outputs,
            attrs=attrs,
        )  # fmt: skip
        return tuple(self.cast(value, one) for value, one in zip(made, wanted, strict=True))

    def _operand(self, slot: Operand) -> Value | list[Value] | None:
        if slot is None or isinstance(slot, Value):
            return slot
        if isinstance(slot, (int, torch.SymInt)):
            return self.size(slot)
        items = list(slot)
        if items and all(isinstance(i, Value) for i in items):
            return items  # type: ignore[return-value]  # checked on this line
        return self.shape(items)  # type: ignore[arg-type]  # sizes, or a mistake that shape() names

    def _results(self, node: Node, operands: Sequence[Value], dtype: Any, shape: Any) -> tuple[Value, ...]:
        count = len(node.outputs)
        if dtype is None:
            dtype = dtype_of(node.op_type, operands)
            if operands and operands[0].dtype == dtype:
                dtype = operands[0].port.desc.dtype  # it may be one that torch holds in another type
        if shape is _UNSET:
            shape = shape_of(node.op_type, operands)
        dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * count
        shapes = shape if isinstance(shape, list) else [shape] * count
        values = []
        for port, one, sizes in zip(node.outputs, dtypes, shapes, strict=True):
            kept: Shape = None if sizes is None else dims_of(sizes)
            kind = DataType.of(one)
            port.desc = TensorDesc(kind, kept)
            values.append(Value(port, kind.torch if isinstance(one, DataType) else one, kept))
        return tuple(values)

    def const(self, value: Any, dtype: torch.dtype) -> Value:
        """A constant: a number, nested lists of numbers, or a tensor."""
        if isinstance(value, torch.Tensor):
            port = self.graph.const(value.to(dtype))
            return Value(port, dtype, tuple(value.shape))
        key = (repr(value), dtype)
        known = self._constants.get(key)
        if known is None:
            tensor = torch.tensor(value, dtype=dtype)
            with self.graph.origin_of(None):
                port = self.graph.const(tensor)
            known = self._constants[key] = Value(port, dtype, tuple(tensor.shape))
        return known

    # sizes and numbers ------------------------------------------------------------------------------------

    def size(self, size: Size) -> Value:
        """One size as an int64 scalar."""
        return self.sizes.scalar(self, self.dim(size))

    def shape(self, sizes: Sequence[Size]) -> Value:
        """Sizes as an int64 vector."""
        return self.sizes.vector(self, [s if isinstance(s, int) else self.dim(s) for s in sizes])

    def dim(self, size: Size) -> Dim:
        """A size of torch as a size of the graph."""
        return as_dim(size) if isinstance(size, torch.SymInt) else size

    def shape_of(self, value: Value) -> Value:
        """The shape of a value as an int64 vector."""
        return self.shape(value.dims)

    def number(self, number: Number | Value, dtype: torch.dtype) -> Value:
        """A number, known now or only at run time, as a single value of that type."""
        if isinstance(number, Value):
            return self.cast(number, dtype)
        if isinstance(number, torch.SymInt):
            return self.cast(self.size(number), dtype)
        if isinstance(number, torch.SymFloat):
            return self.cast(float_value(self, number), dtype)
        if isinstance(number, torch.SymBool):
            raise CannotConvert(
                "a symbolic truth value is used as a number", advice="use torch.where on tensors"
            )
        return self.const(fitting(number, dtype), dtype)

    def converted(self, number: Number | Value, dtype: torch.dtype) -> Value:
        """`number` where torch converts before it computes: one outside the type is refused, as torch refuses it."""
        self.refuse_outside(number, dtype)
        return self.number(number, dtype)

    def refuse_outside(self, number: object, dtype: torch.dtype) -> None:
        """Leaves a number that the type cannot hold to torch, which raises."""
        if outside(number, dtype):
            self.refuse(f"{number} is outside {dtype}", "give a number that the type can hold")

    # types ------------------------------------------------------------------------------------------------

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        """The value in another type; itself when the type is the same."""
        if value.dtype == dtype:
            return value
        return self.emit("Cast", value, dtype=dtype, shape=value.shape, dst_type=DataType.of(dtype))

    def promote(self, *operands: Value | Number, dtype: torch.dtype | None = None) -> tuple[Value, ...]:
        """The operands in one type: the given one, else the one torch would compute in."""
        common = dtype if dtype is not None else computation_dtype(operands)
        return tuple(self.number(o, common) for o in operands)

    @property
    def out_dtype(self) -> torch.dtype:
        """The type of the (first) result."""
        meta = self.meta[0] if isinstance(self.meta, (tuple, list)) else self.meta
        dtype: torch.dtype = meta.dtype
        return dtype

    @property
    def out_dtypes(self) -> tuple[torch.dtype, ...]:
        """The types of the results of an operator that has several."""
        return tuple(meta.dtype for meta in self.meta)

    @property
    def out_shape(self) -> tuple[Dim, ...]:
        """The shape of the (first) result."""
        meta = self.meta[0] if isinstance(self.meta, (tuple, list)) else self.meta
        return dims_of(meta.shape)

    # small compositions that many converters share ---------------------------------------------------------

    def reshape(self, value: Value, shape: Sequence[Size]) -> Value:
        """The same elements in another shape; itself when the shape is the same."""
        dims = tuple(self.dim(s) for s in shape)
        if dims == value.shape:
            return value
        return self.emit("Reshape", value, self.shape(dims), shape=dims)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """The axes in another order; itself when the order is the same."""
        order = [value.axis(p) for p in perm]
        if order == list(range(len(order))):
            return value
        sizes = tuple(value.dims[p] for p in order)
        return self.emit("Transpose", value, order, shape=sizes)

    def broadcast(self, value: Value, shape: Sequence[Size]) -> Value:
        """Axes of size one repeated; itself when the shape is the same."""
        dims = tuple(self.dim(s) for s in shape)
        if dims == value.shape:
            return value
        return self.emit("BroadcastTo", value, self.shape(dims), shape=dims)

    def fill(self, shape: Sequence[Size], number: Number | Value, dtype: torch.dtype) -> Value:
        """One number everywhere."""
        dims = tuple(self.dim(s) for s in shape)
        return self.emit("Fill", self.shape(dims), self.number(number, dtype), dtype=dtype, shape=dims)

    def numbers(self, size: Size) -> Value:
        """0, 1, ... below the size, in int64."""
        return self.emit("Range", 0, self.size(size), 1, dtype=torch.int64, shape=(self.dim(size),))

    def call(self, function: Any, *args: Any, meta: Any = None, **kwargs: Any) -> Any:
        """Another converter's translation of its operator, as a part of this one."""
        saved, self.meta = self.meta, self.meta if meta is None else meta
        try:
            return function(self, *args, **kwargs)
        finally:
            self.meta = saved

    # graphs inside the graph -------------------------------------------------------------------------------

    def truth(self, condition: bool | torch.SymBool) -> Value:
        """A condition on sizes, as a boolean scalar."""
        if isinstance(condition, bool):
            return self.const(condition, torch.bool)
        relation = condition.node.expr
        op_type = _RELATIONS.get(type(relation).__name__)
        if op_type is None:
            raise CannotConvert(
                f"the condition {relation} has no operator",
                advice="compare two sizes, or compute it with tensors",
            )
        left, right = (self.size(as_dim(side)) for side in relation.args)
        return self.emit(op_type, left, right, shape=())

    def subgraph(
        self, name: str, body: fx.GraphModule, operands: Sequence[Any], values: Sequence[Value]
    ) -> Graph:
        """A graph of its own for the body of a control-flow operator, over these operands and nothing else."""
        return self._lowered(name, body, operands, values, None)

    def branches(
        self, bodies: Mapping[str, fx.GraphModule], operands: Sequence[Any], values: Sequence[Value]
    ) -> tuple[dict[str, Graph], list[Value]]:
        """Graphs for bodies of which one runs, once, over the same operands; and the inputs of each.

        Those are the values, and after them what a body needs of this graph besides: random state, sizes.
        """
        more: list[Value] = []
        graphs: dict[str, Graph] = {}
        known: list[int] = []
        for name, body in bodies.items():
            full = f"{self.graph.name}_{name}_{len(self.graph)}"
            graphs[name] = self._lowered(full, body, operands, values, more)
            known.append(len(more))
        for graph, count in zip(graphs.values(), known, strict=True):
            for value in more[count:]:
                _input_for(graph, value)
        return graphs, [*values, *more]

    def take(self, value: Value) -> Value:
        """A value of the graph around a branch as one more input of the branch."""
        if value.port not in self._taken:
            if self._more is None:
                raise CannotConvert(
                    "the body of this operator needs a value that is none of its operands",
                    advice="give the body everything it reads as an operand",
                )
            if all(value.port is not other.port for other in self._more):
                self._more.append(value)
            self._taken[value.port] = _input_for(self.graph, value)
        return self._taken[value.port]

    def _lowered(
        self,
        name: str,
        body: fx.GraphModule,
        operands: Sequence[Any],
        values: Sequence[Value],
        more: list[Value] | None,
    ) -> Graph:
        if self.lower_body is None:
            raise CannotConvert("this context cannot lower a graph inside the graph")
        return self.lower_body(name, body, operands, values, more)

    def written_by(self, function: Any, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """What a converter gives for named arguments, and which of them it wrote."""
        saved, self.written = self.written, {}
        try:
            result = function(self, **arguments)
            return result, self.written
        finally:
            self.written = saved

    def memory(self) -> Memory:
        """The memory of the first argument, for an operator that addresses it by strides."""
        if self._memory is None:
            raise CannotConvert("this context does not know the memory of values")
        return self._memory()

    # random numbers ---------------------------------------------------------------------------------------

    def random_state(self, shape: Sequence[Size]) -> tuple[Value, Value]:
        """Seed (int64, one element) and offset (int64, one element) for one random operator, both read per call."""
        if self.outer is not None:
            if self._more is None:
                self.refuse("a body that may run several times would draw the same random numbers each time")
            seed, offset = self.outer.random_state(shape)
            return self.take(seed), self.take(offset)
        count = self._drawn(shape)
        if self._seed is None:
            self._seed = self._state("rng_seed", SeedInput())
        if self._offsets is None:
            self._offsets = self._state("rng_offsets", OffsetInput(()))
        self._draws.append(count)
        self._offsets.port.desc = self._offsets.port.desc.with_shape((len(self._draws),))
        self.sizes.bindings[self._offsets.port.node] = OffsetInput(tuple(self._draws))
        at = self.const([len(self._draws) - 1], torch.int64)
        offset = self.emit("Gather", self._offsets, at, dtype=torch.int64, shape=(1,))
        return self._seed, offset

    def _drawn(self, shape: Sequence[Size]) -> Dim:
        """How many numbers a tensor of that shape takes; the generator advances by it before the graph runs."""
        count: Dim = math.prod(self.dim(size) for size in shape)
        if isinstance(count, Expr) and not self.sizes.sources.keys() >= count.symbols():
            self.refuse(f"it draws {count} random numbers, a size that only the run of the graph gives")
        return count

    def _state(self, name: str, binding: InputBinding) -> Value:
        port = add_input(self.graph, name, TensorDesc(DataType.INT64, (1,), placement=Placement.HOST))
        self.sizes.bindings[port.node] = binding
        return Value(port, torch.int64, (1,))

    # bookkeeping ------------------------------------------------------------------------------------------

    def refuse(self, reason: str, advice: str = "") -> NoReturn:
        """Says that these arguments have no translation."""
        raise CannotConvert(reason, advice=advice)

    def decompose(self) -> NoReturn:
        """Leaves this call to torch's decomposition; to be decided before anything is emitted."""
        raise UseDecomposition

    def layout(self, value: Value, layout: Format, *, of_all: bool = False) -> None:
        """Sets the order of axes in which an operator takes and gives its images; `of_all` says it of all inputs."""
        node = value.port.node
        rank = len(layout.name)
        for slot, port in enumerate(node.inputs):
            if port is not None and (of_all or port.desc.rank == rank):
                node.input_descs[slot] = port.desc.with_format(layout)
        for port in node.outputs:
            port.desc = port.desc.with_format(layout)

    def made(self, value: Value) -> bool:
        """True when the operator being converted made this value, rather than being given it."""
        return value.port.node in self._made

    @contextmanager
    def converting(self, meta: Any, memory: Callable[[], Memory] | None = None) -> Iterator[None]:
        """While one torch operator is converted."""
        saved = self.meta, self._made, self.written, self._memory
        self.meta, self._made, self.written, self._memory = meta, set(), {}, memory
        token = _current.set(self)
        try:
            yield
        finally:
            self.meta, self._made, self.written, self._memory = saved
            _current.reset(token)


def current_context() -> Context:
    """The context of the converter that is running."""
    found = _current.get(None)
    if found is None:
        raise CannotConvert("no converter is running", advice="call this from inside a converter")
    return found


def _input_for(graph: Graph, value: Value) -> Value:
    """An input of a branch for a value of the graph around it."""
    desc = TensorDesc(DataType.of(value.dtype), value.shape)
    return Value(add_input(graph, value.port.node.name, desc), value.dtype, value.shape)
