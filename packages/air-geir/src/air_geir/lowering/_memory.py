"""The memory behind a value, for operators that address it by strides and not by indices.

A value of Ascend IR is dense in the order of its axes; what torch calls its storage is another order of the elements,
or holds more than them. The memory of a computed value is that of its owner, laid out as torch lays it out. The memory
of an argument is the caller's: the caller's function takes the part that is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from air_geir.building._memory import Window
from air_geir.building._sizes import add_input, dims_of
from air_geir.building._value import Size, Value
from air_geir.errors import CannotConvert, ExpressionError
from air_geir.ir import DataType, Dim, Placement, TensorDesc, apply, as_dim, maximum, minimum, symbol
from air_geir.lowering._host_views import HostViews, Source
from air_geir.lowering._layouts import axes_order, known
from air_geir.program import ArgOutput, HostStep, SymbolSource, ViewInput, ViewOutput
from air_graph import links_of, owner_of

if TYPE_CHECKING:
    from air_geir.building._context import Context
    from air_geir.lowering._lower import Lowering

_ADVICE = "make the operand dense before it (.contiguous()), or index it instead"


class Caller:
    """The arguments of the function around the graph, which can make views of them before the graph runs."""

    def __init__(self, args: Mapping[fx.Node, int], placement: Placement | None) -> None:
        self.args = args
        self.steps: list[HostStep] = []
        self.host = placement


class Memory:
    """The memory of the first argument of the call that is being converted."""

    def __init__(self, lowering: Lowering, node: fx.Node) -> None:
        self.lowering = lowering
        self.ctx: Context = lowering.ctx
        operand = node.args[0]
        assert isinstance(operand, fx.Node), "an operator on memory has a tensor"
        self.operand = operand
        self.like: torch.Tensor = operand.meta["val"]
        self.path = [(lowering, operand)]
        self._resolve()

    def _resolve(self) -> None:
        """Finds the owner, also through the expansions that this call is a part of."""
        lowering, node = self.path[-1]
        owner = owner_of(node)
        while owner in lowering.outer:
            lowering, node = lowering.outer[owner]
            self.path.append((lowering, node))
            owner = owner_of(node)
        self.home, self.owner = lowering, owner

    # what is asked ----------------------------------------------------------------------------------------

    def strided(self, size: Sequence[Size], stride: Sequence[Size], offset: Size | None) -> Value:
        """The elements of the memory at these strides, as a dense value."""
        if self._is_argument:
            return self._view(size, stride, offset)
        flat = self._flat()
        start = as_dim(self.like.storage_offset()) if offset is None else self.ctx.dim(offset)
        return self.pick(flat, size, stride, start)

    def window(self, size: Sequence[Size], stride: Sequence[Size], offset: Size | None) -> Window:
        """A copy of the memory that covers the operand and the elements at these strides, as torch copies it.

        A copy of an expanded operand is dense.
        """
        if self.is_expanded:
            value = self.path[0][0].env[self.operand]
            return Window(self.ctx.reshape(value, (math.prod(value.dims),)), 0, 0)
        if not self._is_argument:
            return Window(self._flat(), 0, as_dim(self.like.storage_offset()))
        own = self._offset_of_argument()
        region = own if offset is None else self.ctx.dim(offset)
        ends = [own + _extent(self.like.shape, self.like.stride()), region + _extent(size, stride)]
        start, end = minimum(own, region), maximum(*ends)
        length = apply("sub", end, start)
        return Window(self._view([length], [1], start), start, own)

    @property
    def is_expanded(self) -> bool:
        """Whether several elements of the operand surely share one address."""
        pairs = zip(self.like.shape, self.like.stride(), strict=True)
        return any(known(stride == 0) and not known(size <= 1) for size, stride in pairs)

    def pick(self, flat: Value, size: Sequence[Size], stride: Sequence[Size], start: Dim) -> Value:
        """Elements of a flat value by strides."""
        ctx = self.ctx
        sizes = tuple(ctx.dim(one) for one in size)
        return ctx.emit(
            "AsStrided", flat, ctx.shape(sizes), ctx.shape(list(stride)), ctx.shape([start]), shape=sizes
        )

    # memory of computed values ------------------------------------------------------------------------------

    def _flat(self) -> Value:
        """All elements of the owner in the order of its memory, in the type of the operand."""
        ctx, like = self.ctx, self.owner.meta["val"]
        value = self.home.env.get(self.owner)
        order = axes_order(like)
        if order is None or not isinstance(value, Value):
            raise CannotConvert(
                f"it reads memory of {self.owner.name} by strides {tuple(self.like.stride())}, which has gaps or "
                "begins inside another tensor",
                advice=_ADVICE,
            )
        flat = ctx.reshape(ctx.transpose(value, order), (math.prod(value.dims),))
        if value.dtype == self.like.dtype:
            return flat
        if value.dtype.itemsize != self.like.dtype.itemsize or value.dtype.is_complex:
            raise CannotConvert(
                f"it reads memory of {value.dtype} as {self.like.dtype}",
                advice="copy the view first (.clone())",
            )
        dtype = self.like.dtype
        return ctx.emit("Bitcast", flat, dtype=dtype, shape=flat.shape, type=dtype)

    # memory of arguments ------------------------------------------------------------------------------------

    @property
    def _is_argument(self) -> bool:
        caller = self.home.caller
        if caller is None or self.owner not in caller.args:
            return False
        now = self.home.env.get(self.owner)
        if isinstance(now, Value) and now.port.node.op_type != "Data":
            raise CannotConvert(
                f"it reads memory of {self.owner.name} by strides after an operator of the graph wrote there",
                advice=_ADVICE,
            )
        return True

    def _view(self, size: Sequence[Size], stride: Sequence[Size], offset: Size | Dim | None) -> Value:
        """The elements of an argument's memory, taken outside the graph and given to it as an input."""
        caller = self.home.caller
        assert caller is not None, "asked before"
        arg = caller.args[self.owner]
        source: Source = ArgOutput(arg)
        for _, node in reversed(self.path):
            views = HostViews(_always(source), caller.steps)
            source = views.of(node)
        sizes, strides = _numbers(self.ctx, size), _numbers(self.ctx, stride)
        start = None if offset is None else self.ctx.dim(offset)
        view = views.add(torch.ops.aten.as_strided.default, source, sizes, strides, start)
        assert isinstance(view, ViewOutput)
        home = self.owner.meta["val"]
        place = caller.host if home.device.type == "cpu" else None
        port = add_input(
            self.ctx.graph,
            f"{self.owner.name}_view",
            TensorDesc(DataType.of(self.like.dtype), sizes, placement=place),
        )
        self.ctx.sizes.bindings[port.node] = ViewInput(view.step, arg, home.is_conj() or home.is_neg())
        return Value(port, self.like.dtype, sizes)

    def _offset_of_argument(self) -> Dim:
        """Where the operand begins in its storage; an argument may begin elsewhere in each call."""
        caller = self.home.caller
        assert caller is not None, "asked before"
        if any(
            link.node.target is torch.ops.aten.as_strided.default
            for _, node in self.path
            for link in links_of(node)
        ):
            return as_dim(self.like.storage_offset())
        arg, base = caller.args[self.owner], self.owner.meta["val"]
        name = f"offset_of_a{arg}"
        self.ctx.sizes.sources[name] = SymbolSource(arg, offset=True)
        from_start = symbol(name) * base.itemsize
        inside = (
            as_dim(self.like.storage_offset()) * self.like.itemsize
            - as_dim(base.storage_offset()) * base.itemsize
        )
        return apply("floordiv", from_start + inside, self.like.itemsize)


def _always(source: Source) -> Callable[[fx.Node], Source]:
    return lambda owner: source


def _numbers(ctx: Context, sizes: Sequence[Size]) -> tuple[Dim, ...]:
    try:
        return dims_of([ctx.dim(size) for size in sizes])
    except ExpressionError as refused:
        raise CannotConvert(refused.what, advice=refused.advice) from refused


def _extent(sizes: Sequence[Any], strides: Sequence[Any]) -> Dim:
    """From the first element to behind the last one; nothing where there is no element."""
    extent: Dim = 1
    for size, stride in zip(sizes, strides, strict=True):
        one, step = (as_dim(x) if isinstance(x, torch.SymInt) else x for x in (size, stride))
        extent = extent + (one - 1) * step
    for size in sizes:
        if not known(size > 0):
            extent = extent * minimum(as_dim(size), 1)
    return extent
