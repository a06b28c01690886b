"""From an AOT graph to a program: the IR graph, and how the caller's arguments and results map onto it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from air_geir.engines import (
    ArgInput,
    ArgOutput,
    ConstantOutput,
    GraphOutput,
    InputBinding,
    OutputBinding,
    Program,
    SizeOutput,
    SymbolSource,
)
from air_geir.errors import CannotConvert, Unsupported, UnsupportedGraphError
from air_geir.ir import Expr, Graph, Node, Placement, Port, TensorDesc, as_dim
from air_geir.lowering._context import Context
from air_geir.lowering._decompose import Expansions, Table, writes_inside
from air_geir.lowering._lower import Lowering
from air_geir.lowering._sizes import Sizes, dims_of
from air_geir.lowering._value import Value

_SIZE_READERS = {
    torch.ops.aten.sym_size.int,
    torch.ops.aten.sym_size.default,
    torch.ops.aten.sym_stride.int,
    torch.ops.aten.sym_stride.default,
    torch.ops.aten.sym_numel.default,
    torch.ops.aten.sym_storage_offset.default,
}


def lower_program(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    name: str = "graph",
    static_inputs: Sequence[int] = (),
    decompositions: Table | None = None,
    sizes_on_host: bool = True,
) -> Program:
    """Lowers an AOT inference graph.

    Args:
        gm: the graph, of ATen operators, input mutations kept as `copy_`.
        example_inputs: what it was traced with; used when nodes carry no description, and to tell parameters.
        name: name of the IR graph.
        static_inputs: arguments whose address stays the same from call to call.
        decompositions: overloads to write with others, before converters and torch's own table.
        sizes_on_host: let the caller compute sizes (a compiled program); otherwise the graph does (an export).
    """
    builder = _ProgramBuilder(
        gm, example_inputs, name, frozenset(static_inputs), sizes_on_host, decompositions
    )
    with unset_fake_temporarily():  # a compiler is called under the tracer's mode: constants must be real
        return builder.build()


def lower(gm: fx.GraphModule, example_inputs: Sequence[Any] = (), *, name: str = "graph") -> Graph:
    """Lowers an AOT inference graph to an Ascend IR graph that stands alone: sizes are computed by its operators."""
    return lower_program(gm, example_inputs, name=name, sizes_on_host=False).graph


class _ProgramBuilder:
    def __init__(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        name: str,
        static: frozenset[int],
        hosted: bool,
        decompositions: Table | None,
    ) -> None:
        self.gm = gm
        self.examples = list(example_inputs)
        self.static = static
        self.graph = Graph(name)
        self.sizes = Sizes(self.graph, hosted=hosted)
        self.ctx = Context(self.graph, self.sizes)
        self.found: list[Unsupported] = []
        self.lowering = Lowering(self.ctx, Expansions(decompositions), self.found)
        self.args: dict[Node, int] = {}
        self.hints: dict[str, int] = {}
        self.holders = [n for n in gm.graph.nodes if n.op == "placeholder"]

    def build(self) -> Program:
        self._describe()
        if writes_inside(self.gm):
            raise CannotConvert(
                f"graph {self.graph.name} writes in place to values inside it",
                advice="give AOTAutograd's functional graph: only its final copy_ into inputs may write",
            )
        holders = self.holders
        self._sources(holders)
        self._inputs(holders)
        results = self.lowering.walk(self.gm)
        if self.found:
            raise UnsupportedGraphError(self.graph.name, self.found)
        outputs = self._outputs(results)
        return Program(
            graph=self.graph,
            inputs=self._bindings(),
            outputs=outputs,
            num_args=len(holders),
            symbols=dict(self.sizes.sources),
            hints=self.hints,
        )

    def _describe(self) -> None:
        """Nodes without a description get one by running the graph on fake tensors."""
        if all("val" in n.meta or not _gives_value(n) for n in self.gm.graph.nodes):
            return
        FakeTensorProp(self.gm).propagate(*self.examples)

    def _sources(self, holders: Sequence[fx.Node]) -> None:
        """Where each symbol is read from; an argument that is the number itself goes before a tensor's size."""
        late: list[tuple[str, SymbolSource]] = []
        for arg, node in enumerate(holders):
            val = node.meta.get("val")
            if isinstance(val, torch.SymInt):
                self._symbol(val, SymbolSource(arg))
            elif isinstance(val, torch.Tensor):
                late.extend(self._symbols_of(arg, val))
        for symbol, source in late:
            self.sizes.sources.setdefault(symbol, source)

    def _symbols_of(self, arg: int, val: torch.Tensor) -> Iterator[tuple[str, SymbolSource]]:
        sizes: Sequence[Any] = val.shape
        for axis, size in enumerate(sizes):
            dim = as_dim(size)
            if isinstance(dim, Expr) and dim.op == "symbol":
                self._hint(dim.name, size)
                yield dim.name, SymbolSource(arg, axis)

    def _symbol(self, val: torch.SymInt, source: SymbolSource) -> None:
        dim = as_dim(val)
        if isinstance(dim, Expr) and dim.op == "symbol":
            self.sizes.sources.setdefault(dim.name, source)
            self._hint(dim.name, val)

    def _hint(self, symbol: str, size: torch.SymInt) -> None:
        hint = size.node.hint if size.node.has_hint() else None
        if hint is not None and not (isinstance(hint, torch.SymInt) and hint.node.is_nested_int()):
            self.hints.setdefault(symbol, int(hint))

    def _inputs(self, holders: Sequence[fx.Node]) -> None:
        described = [n.meta.get("val") for n in holders]
        on_device = any(isinstance(v, torch.Tensor) and v.device.type != "cpu" for v in described)
        for arg, node in enumerate(holders):
            val = node.meta.get("val")
            if not isinstance(val, torch.Tensor):
                self.lowering.env[node] = val
            elif self._is_read(node):
                host = on_device and val.device.type == "cpu"
                desc = TensorDesc.of(val, placement=Placement.HOST if host else None)
                port = self.graph.data(node.name, desc)
                self.args[port.node] = arg
                value = Value(port, val.dtype, dims_of(val.shape))
                self.lowering.env[node] = value
                self.lowering._carry_sizes(value)

    def _is_read(self, node: fx.Node) -> bool:
        if not self.sizes.hosted:
            return True
        return any(u.target not in _SIZE_READERS for u in node.users)

    def _outputs(self, results: Any) -> tuple[OutputBinding, ...]:
        flat = list(results) if isinstance(results, (list, tuple)) else [results]
        ports: dict[Port, int] = {}
        outputs = tuple(self._output(value, ports) for value in flat)
        control = [v.port for v in self.lowering.effects if v.port not in ports]
        self.graph.output(list(ports), control=control)
        return outputs

    def _output(self, value: Any, ports: dict[Port, int]) -> OutputBinding:
        if isinstance(value, Value):
            if value.port.node in self.args:
                return ArgOutput(self.args[value.port.node])
            return GraphOutput(ports.setdefault(value.port, len(ports)))
        if isinstance(value, torch.SymInt):
            dim = as_dim(value)
            unknown = dim.symbols() - self.sizes.sources.keys() if isinstance(dim, Expr) else ()
            if unknown:
                raise CannotConvert(
                    f"the graph returns the size {dim}, which depends on data ({', '.join(sorted(unknown))})",
                    advice="return the tensor it is the size of instead",
                )
            return SizeOutput(dim)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise CannotConvert(f"the graph returns {value}, which is no integer computed from sizes")
        return ConstantOutput(value)

    def _bindings(self) -> tuple[InputBinding, ...]:
        """Numbers the inputs: the caller's tensors in their order, then sizes and random state."""
        for node in [n for n in self.graph.inputs if n.is_dead and n not in self.args]:
            node.erase()
        mine = sorted((n for n in self.graph.inputs if n in self.args), key=self.args.__getitem__)
        extra = [n for n in self.graph.inputs if n not in self.args]
        bindings: list[InputBinding] = []
        for index, node in enumerate([*mine, *extra]):
            node.set_attr("index", index)
            bindings.append(
                self._arg_input(self.args[node]) if node in self.args else self.sizes.bindings[node]
            )
        return tuple(bindings)

    def _arg_input(self, arg: int) -> ArgInput:
        example = self.examples[arg] if arg < len(self.examples) else None
        return ArgInput(
            arg,
            contiguous=bool(self.holders[arg].meta["val"].is_contiguous()),
            parameter=isinstance(example, torch.nn.Parameter),
            static=arg in self.static,
        )


def _gives_value(node: fx.Node) -> bool:
    """False for nodes that have no result to describe."""
    if isinstance(node.target, torch._ops.OpOverload):
        return bool(node.target._schema.returns)
    return node.op == "placeholder"
