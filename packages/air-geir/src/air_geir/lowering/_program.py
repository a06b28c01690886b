"""From an AOT graph to a program: the IR graph, and how the caller's arguments and results map onto it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from torch import fx
from torch._prims_common import is_contiguous_or_false
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from air_geir.building._context import Context
from air_geir.building._sizes import Sizes, dims_of
from air_geir.building._value import Value
from air_geir.converters import find, name_of
from air_geir.errors import CannotConvert, ChecksLeftOut, ExpressionError
from air_geir.ir import Expr, Graph, Node, Placement, Port, TensorDesc, as_dim
from air_geir.lowering._checks import CHECK, checks_that_can_fail
from air_geir.lowering._decompose import Expansions, Table, writes_inside
from air_geir.lowering._faults import cannot_lower
from air_geir.lowering._lower import Lowering
from air_geir.lowering._memory import Caller
from air_geir.lowering._outputs import Outputs, ResultPlan, number_output, returned_by
from air_geir.lowering._promises import promises
from air_geir.lowering._source import source_of
from air_geir.program import (
    ArgInput,
    ArgOutput,
    GraphOutput,
    InputBinding,
    OutputBinding,
    Program,
    SymbolSource,
)
from air_geir.types import DataType
from air_graph import device_kinds, hidden_writes, needed_on_host, no_memory, unknown_ranks, warn_at
from air_graph import source_of as line_of
from air_graph.pieces import LeftOut

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
        sizes_on_host: sizes are computed outside the graph (a compiled program), not by it (an export).
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
        self.found: list[LeftOut] = []
        self.holders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.positions = {node: position for position, node in enumerate(self.holders)}
        self.hosted = hosted
        self.expansions = Expansions(decompositions)
        self.args: dict[Node, int] = {}
        self.hints: dict[str, int] = {}
        self.kinds: set[str] = set()
        self.unread: set[fx.Node] = set()
        """Arguments that Ascend IR cannot describe, which nothing that is translated reads."""

    def build(self) -> Program:
        self._describe()
        hidden = self._of_hidden_writes()
        if writes_inside(self.gm, besides=hidden):
            raise CannotConvert(
                f"graph {self.graph.name} writes in place to values inside it",
                advice="give AOTAutograd's functional graph: only its final copy_ into inputs may write",
            )
        self.kinds = device_kinds(self.gm.graph)
        self.wanted = ResultPlan(self.gm) if self.hosted else None
        self.caller = Caller(self.positions, self._host_placement()) if self.hosted else None
        by_data = {
            **unknown_ranks(self.gm),
            **_without_memory(self.gm),
            **self._of_unknown_sizes(),
            **self._of_unknown_types(),
            **self._checks(),
            **hidden,
        }
        self.lowering = Lowering(
            self.ctx,
            self.expansions,
            self.found,
            caller=self.caller,
            skipped=self.wanted.skipped - by_data.keys() if self.wanted is not None else (),
            untranslated={**self._only_on_host(), **by_data},
        )
        self._sources(self.holders)
        self._inputs(self.holders)
        self.lowering.walk(self.gm)
        if self.found:
            raise cannot_lower(self.graph.name, self.found, beside_torch=self.hosted)
        outputs = self._outputs()
        if self.found:
            raise cannot_lower(self.graph.name, self.found, beside_torch=self.hosted)
        return outputs

    def _checks(self) -> dict[fx.Node, str]:
        """What torch runs for checks that can fail; beside a graph that stands alone there is no torch."""
        found = checks_that_can_fail(self.gm)
        if self.hosted:
            return found
        for node in found:
            if node.target is CHECK:
                warn_at(line_of(node), ChecksLeftOut(source_of(node) or node.name), "air_geir")
        return {}

    def _of_unknown_sizes(self) -> dict[fx.Node, str]:
        """Readers of arguments whose size is no expression of whole numbers (`interpolate` by 1.7)."""
        found: dict[fx.Node, str] = {}
        for holder in self.holders:
            val = holder.meta.get("val")
            try:
                dims_of(val.shape if isinstance(val, torch.Tensor) else ())
            except ExpressionError as refused:
                self.unread.add(holder)
                found.update((user, refused.what) for user in holder.users if user.op != "output")
        return found

    def _of_unknown_types(self) -> dict[fx.Node, str]:
        """Whatever makes or reads a tensor of a type that Ascend IR does not have (`float8_e5m2fnuz`)."""
        found: dict[fx.Node, str] = {}
        for node in self.gm.graph.nodes:
            val = node.meta.get("val")
            if not isinstance(val, torch.Tensor) or DataType.has(val.dtype):
                continue
            touched = [user for user in node.users if user.op != "output"]
            if node.op == "placeholder":
                self.unread.add(node)
            else:
                touched.append(node)
            found.update((one, f"Ascend IR has no {val.dtype}") for one in touched)
        return found

    def _of_hidden_writes(self) -> dict[fx.Node, str]:
        """Operators that write what their schema says they read, and that nothing says in Ascend IR."""
        return {
            node: f"{name_of(node.target)} writes what its schema says it reads, and has no converter"
            for node in self.gm.graph.nodes
            if isinstance(node.target, torch._ops.OpOverload)
            and hidden_writes(node.target) is not None
            and find(node.target) is None
            and not self.expansions.has(node.target)
        }

    def _only_on_host(self) -> dict[fx.Node, str]:
        """Operators whose results are needed in host memory: a device's engine cannot compute those."""
        if self.wanted is None:
            return {}
        needed = needed_on_host(self.gm.graph)
        return {} if self.wanted.skipped.issuperset(needed) else needed

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
        for symbol, source in sorted(late, key=lambda pair: pair[1].stride or pair[1].offset):
            self.sizes.sources.setdefault(symbol, source)

    def _symbols_of(self, arg: int, val: torch.Tensor) -> Iterator[tuple[str, SymbolSource]]:
        """Sizes first: a symbol that is a size as well is read as one."""
        extents: list[tuple[Any, SymbolSource]] = [(s, SymbolSource(arg, i)) for i, s in enumerate(val.shape)]
        if val.layout is torch.strided:
            extents += [(s, SymbolSource(arg, i, stride=True)) for i, s in enumerate(val.stride())]
            extents.append((val.storage_offset(), SymbolSource(arg, offset=True)))
        for extent, source in extents:
            name = extent.node.expr if isinstance(extent, torch.SymInt) else None
            if isinstance(name, sympy.Symbol):
                self._hint(str(name), extent)
                yield str(name), source

    def _symbol(self, val: torch.SymInt, source: SymbolSource) -> None:
        dim = as_dim(val)
        if isinstance(dim, Expr) and dim.op == "symbol":
            self.sizes.sources.setdefault(dim.name, source)
            self._hint(dim.name, val)

    def _hint(self, symbol: str, size: torch.SymInt) -> None:
        hint = size.node.hint if size.node.has_hint() else None
        if hint is not None and not (isinstance(hint, torch.SymInt) and hint.node.is_nested_int()):
            self.hints.setdefault(symbol, int(hint))

    def _host_placement(self) -> Placement | None:
        """Where tensors of the CPU live, seen from the graph."""
        return Placement.HOST if self.kinds - {"cpu"} else None

    def _inputs(self, holders: Sequence[fx.Node]) -> None:
        placement = self._host_placement()
        for arg, node in enumerate(holders):
            val = node.meta.get("val")
            if not isinstance(val, torch.Tensor):
                self.lowering.env[node] = val
            elif node in self.unread:
                self.lowering.env[node] = None
            elif self._is_read(node):
                desc = TensorDesc.of(val, placement=placement if val.device.type == "cpu" else None)
                port = self.graph.data(node.name, desc)
                self.args[port.node] = arg
                value = Value(port, val.dtype, dims_of(val.shape))
                self.lowering.env[node] = value
                self.lowering._carry_sizes(value)

    def _is_read(self, node: fx.Node) -> bool:
        if self.wanted is None:
            return True
        skipped = self.wanted.skipped
        return any(
            u.target not in _SIZE_READERS and u.op != "output" and u not in skipped for u in node.users
        )

    def _outputs(self) -> Program:
        if self.wanted is None:
            return self._program(self._exported())
        made = Outputs(self.ctx, self.wanted, self.lowering.env, self.positions, self.found)
        outputs = made.bindings()
        self._end(list(made.ports))
        promised = promises(self.wanted.returned, self.positions)
        program = self._program(outputs)
        return replace(
            program,
            symbols={**program.symbols, **made.symbols},
            before=tuple(self.caller.steps) if self.caller is not None else (),
            after=made.steps,
            promises=promised.results,
            argument_promises=promised.arguments,
        )

    def _exported(self) -> tuple[OutputBinding, ...]:
        """Results of a graph that stands alone: values, and nothing is said about memory."""
        ports: dict[Port, int] = {}
        outputs = []
        for result in returned_by(self.gm):
            value = self.lowering.read(result)
            if not isinstance(value, Value):
                outputs.append(number_output(value))
            elif value.port.node in self.args:
                outputs.append(ArgOutput(self.args[value.port.node]))
            else:
                outputs.append(GraphOutput(ports.setdefault(value.port, len(ports))))
        self._end(list(ports))
        return tuple(outputs)

    def _end(self, ports: Sequence[Port]) -> None:
        given = set(ports)
        self.graph.output(ports, control=[v.port for v in self.lowering.effects if v.port not in given])

    def _program(self, outputs: tuple[OutputBinding, ...]) -> Program:
        return Program(
            graph=self.graph,
            inputs=self._bindings(),
            outputs=outputs,
            num_args=len(self.holders),
            symbols=dict(self.sizes.sources),
            hints=self.hints,
        )

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
        value = self.holders[arg].meta["val"]
        turned = bool(value.is_conj() or value.is_neg())
        return ArgInput(
            arg,
            contiguous=is_contiguous_or_false(value) and not turned,
            turned=turned,
            parameter=isinstance(example, torch.nn.Parameter),
            static=arg in self.static,
        )


def _without_memory(gm: fx.GraphModule) -> dict[fx.Node, str]:
    return {node: why for node in gm.graph.nodes if (why := no_memory(node)) is not None}


def _gives_value(node: fx.Node) -> bool:
    """False for nodes that have no result to describe."""
    if isinstance(node.target, torch._ops.OpOverload):
        return bool(node.target._schema.returns)
    return node.op == "placeholder"
