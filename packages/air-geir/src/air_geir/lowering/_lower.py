"""Walks an FX graph and lets converters, or decompositions into operators that have them, translate every node."""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from air_config import variables
from air_config.errors import AirError
from air_geir.auto import automatic
from air_geir.building._context import Context, UseDecomposition
from air_geir.building._sizes import Sizes, dims_of
from air_geir.building._value import Value
from air_geir.converters import Converter, find_converter, name_of
from air_geir.errors import AttributeKindError, CannotConvert, ExpressionError
from air_geir.ir import DataType, Expr, Graph, Origin, TensorDesc, as_dim
from air_geir.lowering._checks import checks_that_can_fail
from air_geir.lowering._decompose import Expansions, is_dynamic_leaf
from air_geir.lowering._faults import gave, of_another_type, raised_in
from air_geir.lowering._memory import Caller, Memory
from air_geir.lowering._scopes import Scopes
from air_geir.lowering._source import origin_of, reason_of, source_of
from air_graph import attribute, named_arguments
from air_graph.pieces import LeftOut
from air_graph.progress import progress_on_terminal, showing

log = logging.getLogger(__name__)

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_SYMBOLIC = (*_SYMBOLS, int, float, bool)


class Lowering:
    """Lowers the nodes of one FX graph into one IR graph."""

    def __init__(
        self,
        ctx: Context,
        expansions: Expansions,
        found: list[LeftOut],
        *,
        caller: Caller | None = None,
        skipped: Collection[fx.Node] = (),
        untranslated: Mapping[fx.Node, str] | None = None,
    ) -> None:
        self.ctx = ctx
        self.expansions = expansions
        self.found = found
        self.env: dict[fx.Node, Any] = {}
        self.effects: list[Value] = []
        """Values that nothing reads, but whose operators must run: writes to inputs, prints, communication."""
        self.scopes = Scopes(ctx.graph)
        self.caller = caller
        """What the function around the graph can do before it runs; None where there is no such function."""
        self.skipped = skipped
        """Nodes that need no translation, because the function around the graph computes them."""
        self.untranslated = untranslated or {}
        """Nodes that must not be translated, each with the reason."""
        self.outer: dict[fx.Node, tuple[Lowering, fx.Node]] = {}
        """Inputs of an expansion, with the values they stand for in the graph around it."""

        ctx.lower_body = self.lower_body

    def lower_body(
        self,
        name: str,
        body: fx.GraphModule,
        operands: Sequence[Any],
        values: Sequence[Value],
        more: list[Value] | None,
    ) -> Graph:
        """The body of a branch as a graph of its own, which computes its sizes itself.

        Its inputs are those for the values, then those for `more`, to which it appends what it needs besides.
        """
        graph = Graph(name)
        ctx = Context(graph, Sizes(graph, hosted=False), self.ctx, more)
        inner = Lowering(ctx, self.expansions, [], untranslated=checks_that_can_fail(body))
        holders = [n for n in body.graph.nodes if n.op == "placeholder"]
        for holder, operand, value in zip(holders, operands, values, strict=True):
            port = graph.data(holder.name, TensorDesc(DataType.of(value.dtype), value.shape))
            given = Value(port, value.dtype, value.shape)
            inner.env[holder] = operand
            if isinstance(operand, torch.SymInt):
                ctx.sizes.hold(as_dim(operand), given)
            elif isinstance(operand, Value):
                inner._carry_sizes(given)
                inner.env[holder] = given
        for value in more or ():
            ctx.take(value)
        inner.walk(body)
        result = inner.read(body.graph.output_node().args[0])
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        self._report_inside(inner.found)
        tensors = [r for r in results if isinstance(r, Value)]
        if len(tensors) < len(results) and not inner.found:
            raise CannotConvert("a branch gives a number", advice="give a tensor, to keep it in the graph")
        graph.output([t.port for t in tensors], control=[e.port for e in inner.effects])
        return graph

    def _report_inside(self, found: Sequence[LeftOut]) -> None:
        """What the body of an operator could not lower, as a report of that operator: it is left out as a whole."""
        origin = self.ctx.graph.origin
        for one in found:
            if origin is not None:
                one = replace(one, node=origin.fx, source=one.source or origin.source)
            if one not in self.found:
                self.found.append(one)

    def walk(self, module: fx.GraphModule) -> None:
        """Lowers every node. Placeholders must be in `env` already."""
        nodes = module.graph.nodes
        bar = progress_on_terminal(
            len(nodes), unit="nodes", wanted=variables.switch("ACLGRAPH_PROGRESS", True)
        )
        with showing(bar, f"{self.ctx.graph.name} to Ascend IR"):
            for node in nodes:
                self._walk_one(module, node)
                if bar is not None:
                    bar.advance()

    def _walk_one(self, module: fx.GraphModule, node: fx.Node, origin: Origin | None = None) -> None:
        if node in self.skipped:
            return
        if node in self.untranslated:
            told = self.untranslated[node]
            self.found.append(LeftOut(node.name, name_of(node.target), told, source_of(node)))
            self.env[node] = self._stand_in(node.meta.get("val"))
            return
        if node.op == "call_function":
            with self.ctx.graph.origin_of(origin or origin_of(node)):
                self.env[node] = self._step(node)
        elif node.op == "get_attr":
            self.env[node] = self._attribute(module, node)
        elif node.op not in ("placeholder", "output"):
            raise CannotConvert(
                f"node {node.name} is a {node.op}",
                advice="lower the graph AOTAutograd makes, not Dynamo's",
            )

    def read(self, argument: Any) -> Any:
        """An argument of a node with values in the place of nodes."""
        if isinstance(argument, fx.Node):
            return self.env[argument]
        if isinstance(argument, (list, tuple)):
            return type(argument)([self.read(a) for a in argument])
        if isinstance(argument, slice):
            return slice(self.read(argument.start), self.read(argument.stop), self.read(argument.step))
        return argument

    # one node ---------------------------------------------------------------------------------------------

    def _step(self, node: fx.Node) -> Any:
        """A node of the user's graph: a scope acts on what follows, everything else is translated."""
        try:
            return None if self.scopes.takes(node, self.read) else self._call(node)
        except CannotConvert as refused:
            self.found.append(LeftOut(node.name, name_of(node.target), reason_of(refused), source_of(node)))
            return None

    def _call(self, node: fx.Node) -> Any:
        target = node.target
        if target is operator.getitem:
            return self._item(node)
        meta = node.meta.get("val")
        converter = None if self.expansions.overridden(target) else find_converter(target)
        if converter is None and _are_sizes(meta):
            return meta
        try:
            return self._convert(node, converter, meta)
        except (CannotConvert, ExpressionError) as refused:
            origin = self.ctx.graph.origin or origin_of(node)
            self.found.append(LeftOut(origin.fx, name_of(target), reason_of(refused), origin.source))
            return self._stand_in(meta)

    def _item(self, node: fx.Node) -> Any:
        """One of several results; an operator whose translation lacks a result that is used is reported."""
        several: Any = node.args[0]
        index = node.args[1]
        result = self.read(several)[index]
        if result is not None or not node.users or not isinstance(node.meta.get("val"), torch.Tensor):
            return result
        target, origin = name_of(several.target), self.ctx.graph.origin
        # Inside a decomposition the whole operator is reported.
        inside = origin is not None and origin.fx != node.name
        name = origin.fx if inside and origin is not None else several.name
        told = f"{target} gives no result {index} in Ascend IR"
        self.found.append(LeftOut(name, target, told, source_of(several)))
        return self._stand_in(node.meta["val"])

    def _convert(self, node: fx.Node, converter: Converter | None, meta: Any) -> Any:
        args, kwargs = self.read(tuple(node.args)), {k: self.read(v) for k, v in node.kwargs.items()}
        if converter is None:
            return self._expand(node, args, kwargs)
        args = self._with_a_tensor(node.target, args)
        try:
            with self.ctx.converting(meta, lambda: Memory(self, node)):
                origin = self.ctx.graph.origin or origin_of(node)
                result = call_converter(self.ctx, converter, args, kwargs, origin.source)
                settled = self._settle(result, meta, converter, origin.source)
                self._write_back(node, self.ctx.written)
        except UseDecomposition:
            return self._expand(node, args, kwargs)
        except AttributeKindError as wrong:
            if not any(isinstance(leaf, _SYMBOLS) for leaf in pytree.tree_leaves((args, dict(kwargs)))):
                raise
            raise CannotConvert(
                f"{wrong.what}: attributes are fixed, this one is a symbolic size",
                advice="mark the dim static (dynamic=False)",
            ) from wrong
        if isinstance(meta, _SYMBOLIC):
            self._carry_number(meta, settled)
            return meta
        return settled

    def _with_a_tensor(self, target: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """An operator on one number (`conj(1j)`, which derivatives contain): torch treats it as a tensor."""
        takes = target._schema.arguments if isinstance(target, torch._ops.OpOverload) else ()
        is_alone = (
            args
            and isinstance(args[0], (bool, int, float, complex))
            and takes
            and str(takes[0].type) == "Tensor"
            and not any(isinstance(leaf, Value) for leaf in pytree.tree_leaves(args))
        )
        if not is_alone:
            return args
        return (self.ctx.const(args[0], torch.tensor(args[0]).dtype), *args[1:])

    def _expand(self, node: fx.Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        op = node.target
        if not isinstance(op, torch._ops.OpOverload):
            raise CannotConvert(f"{name_of(op)} has no converter")
        metas = pytree.tree_map_only(fx.Node, lambda n: n.meta["val"], (node.args, node.kwargs))
        try:
            body = self.expansions.expand(op, *metas)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as failed:
            raise CannotConvert(f"the decomposition of {name_of(op)} failed: {failed}") from failed
        if body is None:
            meta = node.meta.get("val")
            converter = automatic(op) if _is_of_device(meta) else None
            if converter is None:
                raise CannotConvert(f"{name_of(op)} has neither a converter nor a decomposition")
            return self._convert(node, converter, meta)
        inner = Lowering(self.ctx, self.expansions, self.found)
        leaves = zip(pytree.tree_leaves(metas), pytree.tree_leaves((args, dict(kwargs))), strict=True)
        given = [value for leaf, value in leaves if is_dynamic_leaf(leaf)]
        holders = [n for n in body.graph.nodes if n.op == "placeholder"]
        inner.env.update(zip(holders, given, strict=True))
        inner.outer = {
            holder: (self, outer)
            for holder, outer in zip(holders, _dynamic_nodes(node), strict=True)
            if outer is not None
        }
        origin = self.ctx.graph.origin
        result = inner.walk_inside(body, origin)
        self.effects.extend(inner.effects)
        return self._as_stated(result, node.meta.get("val"))

    def _as_stated(self, result: Any, meta: Any) -> Any:
        """In the shape and type that torch states.

        A gradient of a vector is a row for some devices, and some give indices of another type.
        """
        if isinstance(meta, (list, tuple)) and isinstance(result, (list, tuple)):
            return type(result)(self._as_stated(r, m) for r, m in zip(result, meta, strict=False))
        if not isinstance(result, Value) or not isinstance(meta, torch.Tensor):
            return result
        result = self.ctx.cast(result, meta.dtype)
        if result.shape is None:
            return result
        given, stated = result.dims, dims_of(meta.shape)
        if math.prod(given) == math.prod(stated):
            return self.ctx.reshape(result, stated)
        are_known = all(type(size) is int for size in (*given, *stated))
        if are_known or len(given) != len(stated):
            raise CannotConvert(
                f"its decomposition gives sizes {list(given)}, and torch states {list(stated)}"
            )
        return result

    def walk_inside(self, body: fx.GraphModule, origin: Origin | None) -> Any:
        """Lowers an expansion: everything it makes comes from the node that was expanded."""
        for node in body.graph.nodes:
            self._walk_one(body, node, origin)
        return self.read(body.graph.output_node().args[0])

    # results ----------------------------------------------------------------------------------------------

    def _settle(self, result: Any, meta: Any, converter: Converter, call: str | None) -> Any:
        """Checks the result against torch's description and takes over its shape."""
        if isinstance(meta, (list, tuple)):
            if not isinstance(result, (list, tuple)) or len(result) != len(meta):
                raise gave(converter, result, f"{len(meta)} results", call)
            # a result that nothing reads may be None
            return [
                None if r is None else self._settle(r, m, converter, call)
                for r, m in zip(result, meta, strict=True)
            ]
        if not isinstance(meta, torch.Tensor):
            return result
        if not isinstance(result, Value):
            if converter.is_own:
                return result
            raise gave(converter, result, "a Value", call)
        if result.dtype != meta.dtype:
            raise of_another_type(converter, result.dtype, meta.dtype)
        dims = dims_of(meta.shape)
        settled = Value(result.port, result.dtype, dims)
        if self.ctx.made(result):
            result.port.desc = TensorDesc(DataType.of(meta.dtype), dims, result.port.desc.format)
            self._carry_sizes(settled)
        return settled

    def _carry_sizes(self, value: Value) -> None:
        for axis, dim in enumerate(value.dims):
            if isinstance(dim, Expr) and dim.op == "symbol":
                self.ctx.sizes.carry(dim.name, value, axis)

    def _carry_number(self, number: Any, value: Any) -> None:
        if isinstance(value, Value) and isinstance(number, (torch.SymInt, torch.SymFloat)):
            self.ctx.sizes.carry(str(number.node.expr), value, None)

    def _write_back(self, node: fx.Node, written: Mapping[str, Any]) -> None:
        """After an operator that writes: the written nodes stand for their new values."""
        if not written:
            return
        target = node.target
        named = dict(node.kwargs)
        if isinstance(target, torch._ops.OpOverload):
            named = named_arguments(node, target)
        for name, value in written.items():
            pair: tuple[Any, Any] = (value, named.get(name))
            values, arguments = (list(v) if isinstance(v, (list, tuple)) else [v] for v in pair)
            self.effects.extend(values)
            for argument, one in zip(arguments, values, strict=False):
                if isinstance(argument, fx.Node):
                    self.env[argument] = one

    def _attribute(self, module: fx.GraphModule, node: fx.Node) -> Any:
        held = attribute(module, str(node.target))
        if not isinstance(held, torch.Tensor):
            return held
        real = getattr(held, "constant", None) if isinstance(held, torch._subclasses.FakeTensor) else held
        if real is None:
            raise CannotConvert(
                f"constant {node.target} has no data", advice="trace the model on real tensors"
            )
        return self.ctx.const(real.detach(), real.dtype)

    def _stand_in(self, meta: Any) -> Any:
        """A value in place of a node that failed, so that the report covers the whole graph."""
        if isinstance(meta, (list, tuple)):
            return [self._stand_in(m) for m in meta]
        if not isinstance(meta, torch.Tensor):
            return meta
        try:
            dims = dims_of(meta.shape)
        except ExpressionError:
            sizes: list[Any] = list(meta.shape)  # as large as they are now
            dims = tuple(int(size.node.hint) if isinstance(size, torch.SymInt) else size for size in sizes)
        known = meta.dtype if DataType.has(meta.dtype) else torch.uint8  # nothing that is translated reads it
        desc = TensorDesc(DataType.of(known), dims)
        return Value(self.ctx.graph.data("unsupported", desc), meta.dtype, dims)


_ONE_OF_SEVERAL = object()


def _dynamic_nodes(node: fx.Node) -> Iterator[fx.Node | None]:
    """The argument behind each input of an expansion; None for one of several values of a node."""

    def behind(argument: fx.Node) -> Any:
        value = argument.meta["val"]
        if isinstance(value, (list, tuple)):
            return [_ONE_OF_SEVERAL for leaf in pytree.tree_leaves(value) if is_dynamic_leaf(leaf)]
        return argument if is_dynamic_leaf(value) else ()

    for leaf in pytree.tree_leaves(pytree.tree_map_only(fx.Node, behind, (node.args, node.kwargs))):
        if leaf is _ONE_OF_SEVERAL:
            yield None
        elif isinstance(leaf, fx.Node):
            yield leaf


def _are_sizes(meta: Any) -> bool:
    """Whether a node gives a symbolic number, or several sizes: they are known without an operator."""
    if isinstance(meta, (list, tuple)):
        return bool(meta) and all(isinstance(one, _SYMBOLIC) for one in meta)
    return isinstance(meta, _SYMBOLIC)


def call_converter(
    ctx: Context, converter: Converter, args: tuple[Any, ...], kwargs: Mapping[str, Any], call: str | None
) -> Any:
    """Runs a converter the way it wants to be called.

    If one of AIR's own fails, the operator is refused with the reason. An error of a user's converter is raised with
    the line of the converter, and with `call`, the line that called the operator.
    """
    if "from" in kwargs and converter.takes_context:
        kwargs = {("from_" if name == "from" else name): value for name, value in kwargs.items()}
    try:
        return converter.function(ctx if converter.takes_context else ctx.meta, *args, **kwargs)
    except (CannotConvert, ExpressionError, AttributeKindError, UseDecomposition):
        raise
    except Exception as fault:
        if not converter.is_own:
            if isinstance(fault, AirError):
                raise
            raise raised_in(converter, fault, call) from fault
        log.debug("the converter of %s failed", converter.target, exc_info=fault)
        raise CannotConvert(
            f"its converter failed with {type(fault).__name__}: {fault}", advice="please report it"
        ) from fault


def _is_of_device(meta: Any) -> bool:
    """Whether an operator runs on a device, where packages of custom operators have their kernels."""
    return any(isinstance(x, torch.Tensor) and x.device.type != "cpu" for x in pytree.tree_leaves(meta))
