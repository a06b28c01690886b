"""What the caller gets: values that the graph computes, and views that the caller's function makes of its tensors.

In Ascend IR no two values share memory, and results are dense. So the graph returns the values that own memory, each
once, and views among the results are made afterwards, of these values or of the caller's arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from air_geir.building._context import Context
from air_geir.building._value import Value
from air_geir.converters import name_of
from air_geir.errors import CannotConvert, ExpressionError
from air_geir.ir import Dim, Expr, Port, as_dim, symbol
from air_geir.lowering._host_views import HostViews, Source
from air_geir.lowering._layouts import axes_order, is_dense, looks_dense
from air_geir.lowering._source import origin_of, reason_of, source_of
from air_geir.lowering._strided import lay_out, with_axes
from air_geir.program import (
    ArgOutput,
    ConstantOutput,
    GraphOutput,
    HostStep,
    OutputBinding,
    SizeOutput,
    SymbolSource,
)
from air_graph import (
    Region,
    copies_with_gaps,
    links_of,
    owner_of,
    owning_results,
    surely_within,
    surroundings_of,
)
from air_graph.pieces import LeftOut

aten = torch.ops.aten

_IN_ORDER = frozenset({
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default,
    aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.alias.default, aten.detach.default,
})  # fmt: skip
"""Views that keep every element in its place: the graph can give them instead of the value they lie in."""


def returned_by(gm: fx.GraphModule) -> list[Any]:
    """What a graph returns, nodes among it."""
    returned: Any = gm.graph.output_node().args[0]
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def number_output(value: Any) -> OutputBinding:
    """A result that is not a tensor."""
    if isinstance(value, torch.SymInt):
        return SizeOutput(as_dim(value))
    if isinstance(value, (torch.SymFloat, torch.SymBool)):
        raise CannotConvert(
            f"the graph returns {value}, which is not an integer computed from sizes",
            advice="return it as a tensor, or compute it outside the compiled function",
        )
    return ConstantOutput(value)


class ResultPlan:
    """Which results are views made outside the graph, and which nodes nothing else needs."""

    def __init__(self, gm: fx.GraphModule) -> None:
        self.returned = returned_by(gm)
        tensors = [node for node in dict.fromkeys(self.returned) if _is_tensor(node)]
        sharing: dict[fx.Node, list[fx.Node]] = {}
        for node in tensors:
            sharing.setdefault(owner_of(node), []).append(node)
        self.views = {
            node
            for node, result in zip(self.returned, owning_results(gm), strict=True)
            if _is_tensor(node) and not result.owns
        }
        """Results that are views in eager of a value that is not a result; passes may have replaced it by them."""
        self.direct = {
            node for owner, nodes in sharing.items() if self._is_alone(owner, nodes) for node in nodes
        }
        """Views that share memory with no other result, and that the graph can return dense."""
        self.skipped = _unread(node for node in tensors if node not in self.direct)
        """Nodes that only results depend on: they are computed outside the graph."""

    def _is_alone(self, owner: fx.Node, nodes: Sequence[fx.Node]) -> bool:
        """Whether the only result in some memory is one view of a computed value, with all its elements in order."""
        node = nodes[0]
        if len(nodes) > 1 or node is owner or owner.op == "placeholder":
            return False
        if any(link.node.target not in _IN_ORDER for link in links_of(node)):
            return False
        return is_dense(owner.meta["val"]) and is_dense(node.meta["val"])


def _is_tensor(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def _unread(made: Iterator[fx.Node]) -> frozenset[fx.Node]:
    """The nodes of these chains of views that no other node reads."""
    skipped: set[fx.Node] = set()
    waiting = [node for node in made if any(True for _ in links_of(node))]
    while waiting:
        node = waiting.pop()
        link = next(links_of(node), None)
        if link is None or link.kind == "same" or node in skipped:
            continue
        if all(user.op == "output" or user in skipped for user in node.users):
            skipped.add(node)
            waiting.append(link.base)
    return frozenset(skipped)


class Outputs:
    """Makes the bindings of results once the graph is lowered."""

    def __init__(
        self,
        ctx: Context,
        wanted: ResultPlan,
        env: Mapping[fx.Node, Any],
        args: Mapping[fx.Node, int],
        found: list[LeftOut],
    ) -> None:
        self.ctx = ctx
        self.wanted = wanted
        self.env = env
        self.args = args
        self.found = found
        self.ports: dict[Port, int] = {}
        """The outputs of the graph, with their positions."""
        self._owners: list[fx.Node | None] = []
        self.views = HostViews(self._base, [])
        self.symbols: dict[str, SymbolSource] = {}
        """Sizes that the caller's function reads from outputs of the graph."""
        self._given: dict[Source, fx.Node] = {}

    @property
    def steps(self) -> tuple[HostStep, ...]:
        """What the caller's function makes after the run."""
        return tuple(self.views.steps)

    def bindings(self) -> tuple[OutputBinding, ...]:
        """One binding per result; what cannot be given is added to `found`."""
        returned = self.wanted.returned
        found = {
            at: self._reported(returned[at]) for at in sorted(range(len(returned)), key=self._is_made_later)
        }
        made = tuple(found[at] for at in range(len(returned)))
        dims = [d for step in self.views.steps for d in step.dims()]
        dims += [b.value for b in made if isinstance(b, SizeOutput)]
        for name in sorted({name for dim in dims if isinstance(dim, Expr) for name in dim.symbols()}):
            self._source_of_symbol(name)
        return made

    def _is_made_later(self, at: int) -> bool:
        """Whether a result lies in the memory of another value, whose own tensor has to be made first."""
        result = self.wanted.returned[at]
        return _is_tensor(result) and owner_of(result) is not result

    def _reported(self, result: Any) -> OutputBinding:
        try:
            return self._binding(result)
        except (CannotConvert, ExpressionError) as refused:
            self.found.append(
                LeftOut(result.name, name_of(result.target), reason_of(refused), source_of(result))
            )
            return ConstantOutput()

    def _binding(self, result: Any) -> OutputBinding:
        if _is_tensor(result):
            return self._tensor(result)
        return number_output(self.env[result] if isinstance(result, fx.Node) else result)

    def _tensor(self, node: fx.Node) -> OutputBinding:
        if node in self.wanted.direct:
            return GraphOutput(self._output(self.env[node], node))
        self._refuse_surroundings(node)
        source = self.views.of(node)
        known = self._given.setdefault(source, node)
        is_argument = isinstance(source, ArgOutput) and node not in self.args
        is_hidden = isinstance(source, GraphOutput) and node in self.wanted.views
        if known is not node or is_argument or is_hidden:
            source = self.views.again(node)
            self._given[source] = node
        return source

    def _refuse_surroundings(self, node: fx.Node) -> None:
        """A view by strides may show what a scatter copied beside the elements; the graph has only the elements."""
        for link in links_of(node):
            scatter = next(copies_with_gaps(link.node), None)
            if scatter is None:
                continue
            seen, given = (Region.of(one.meta["val"]) for one in (link.node, scatter))
            if axes_order(scatter.meta["val"]) is None or not surely_within(seen, given):
                raise CannotConvert(
                    f"it shows memory beside the elements of {scatter.name}",
                    advice="return a copy of the elements you need (.clone())",
                )

    # values that own memory --------------------------------------------------------------------------------

    def _base(self, owner: fx.Node) -> Source:
        """The tensor of a value with memory of its own, laid out as eager lays it out."""
        if owner in self.args:
            return ArgOutput(self.args[owner])
        value, like = self.env[owner], owner.meta["val"]
        if not isinstance(value, Value):
            raise CannotConvert(f"{owner.name} has no value in the graph")
        order = axes_order(like)
        if order is None or surroundings_of(owner) in self.args:
            return self._strided(owner, value, like)
        with self.ctx.graph.origin_of(origin_of(owner)):
            moved = self.ctx.transpose(value, order)
        output = GraphOutput(self._output(moved, owner))
        if list(order) == sorted(order):
            return output
        back = tuple(order.index(axis) for axis in range(len(order)))
        return self.views.add(with_axes, output, back)

    def _strided(self, owner: fx.Node, value: Value, like: torch.Tensor) -> Source:
        """A value with gaps between its elements, or whose order depends on sizes that are not known yet."""
        output = GraphOutput(self._output(value, owner))
        try:
            stride: list[Dim] = [as_dim(step) for step in like.stride()]
            offset = self._begins_at(owner, like)
        except ExpressionError as refused:
            if looks_dense(like):
                return output
            raise CannotConvert(
                f"strides that cannot be computed: {refused.what}", advice="return a contiguous copy"
            ) from refused
        return self.views.add(lay_out, output, stride, offset)

    def _begins_at(self, owner: fx.Node, like: torch.Tensor) -> Dim:
        """Where a result begins; what was copied into an argument begins at that argument's offset in each call."""
        copied = surroundings_of(owner)
        if copied is None or copied not in self.args:
            return as_dim(like.storage_offset())
        name = f"offset_of_a{self.args[copied]}"
        self.ctx.sizes.sources[name] = SymbolSource(self.args[copied], offset=True)
        return symbol(name) + as_dim(like.storage_offset() - copied.meta["val"].storage_offset())

    def _output(self, value: Value, owner: fx.Node) -> int:
        """The position of a value among the outputs; a value that already lies in other memory is copied."""
        known = self.ports.get(value.port)
        if value.port.node.op_type == "Data" or (known is not None and self._owners[known] is not owner):
            with self.ctx.graph.origin_of(origin_of(owner)):
                value = self.ctx.emit("TensorMove", value, shape=value.shape)
        return self._place(value.port, owner)

    def _place(self, port: Port, owner: fx.Node | None) -> int:
        if port not in self.ports:
            self.ports[port] = len(self._owners)
            self._owners.append(owner)
        return self.ports[port]

    # sizes that only the graph knows -------------------------------------------------------------------------

    def _source_of_symbol(self, name: str) -> None:
        if name in self.ctx.sizes.sources or name in self.symbols:
            return
        carrier = self.ctx.sizes.carrier(name)
        if carrier is None:
            users = ", ".join(str(node) for node in self.wanted.returned)
            self.found.append(
                LeftOut(users, "output", f"the size {name} of a result is carried by no value of the graph")
            )
            return
        value, axis = carrier
        self.symbols[name] = SymbolSource(self._place(value.port, None), axis, computed=True)
