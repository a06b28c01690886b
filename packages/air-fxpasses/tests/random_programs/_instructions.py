"""The instructions random programs are made of, grouped by what they threaten."""

from __future__ import annotations

from typing import Any, Final

import torch

from random_programs._programs import Builder, Instruction, Slot

aten = torch.ops.aten

_UNARY: Final = (
    aten.relu.default,
    aten.neg.default,
    aten.abs.default,
    aten.ceil.default,
    aten.sign.default,
    aten.bitwise_not.default,
    aten.logical_not.default,
    aten.square.default,
    aten.clone.default,
    aten.cumsum.default,
    aten.triu.default,
)
_BINARY: Final = (
    aten.add.Tensor,
    aten.sub.Tensor,
    aten.mul.Tensor,
    aten.maximum.default,
    aten.eq.Tensor,
    aten.copy.default,
    aten.atan2.default,
)


def unary(b: Builder) -> None:
    op = b.one_of(_UNARY)
    if op is aten.cumsum.default:
        b.call(op, b.tensor(), 0)
    else:
        b.call(op, b.tensor())


def scalar(b: Builder) -> None:
    op = b.one_of(
        (aten.add.Tensor, aten.mul.Tensor, aten.pow.Tensor_Scalar, aten.fill.Scalar, aten.eq.Scalar)
    )
    b.call(op, b.tensor(), 1 + b.draw(2))


def binary(b: Builder) -> None:
    b.call(b.one_of(_BINARY), b.tensor(), b.tensor())


def ternary(b: Builder) -> None:
    first = b.tensor()
    b.call(b.one_of((aten.addcmul.default, aten.lerp.Tensor)), first, b.like(first), b.tensor())


def cast(b: Builder) -> None:
    b.call(aten._to_copy.default, b.tensor(), dtype=b.one_of((torch.float32, torch.float16, torch.int64)))


def identity(b: Builder) -> None:
    """Operators that often have no effect."""
    slot = b.tensor()
    size = list(slot.value.size())
    which = b.draw(7)
    if which == 0:
        b.call(aten.slice.Tensor, slot, 0, 0, 9223372036854775807)
    elif which == 1:
        b.call(aten.repeat.default, slot, [1] * len(size))
    elif which == 2:
        b.call(aten.constant_pad_nd.default, slot, [0, 0], 0)
    elif which == 3:
        b.call(aten.view.default, slot, size)
    elif which == 4:
        b.call(aten.cat.default, [slot])
    elif which == 5:
        b.call(aten.expand.default, slot, size)
    else:
        b.call(b.one_of((aten.alias.default, aten.detach.default, aten.clone.default)), slot)


def _dim(b: Builder, slot: Slot) -> int:
    return b.draw(max(1, slot.value.dim()))


def _slice_arguments(b: Builder, slot: Slot) -> tuple[Any, ...]:
    dim = _dim(b, slot)
    start = b.draw(3)
    return dim, start, start + 1 + b.draw(3), 1 + b.draw(2)


def view(b: Builder) -> None:
    slot = b.tensor()
    which = b.draw(9)
    if which <= 1:
        b.call(aten.slice.Tensor, slot, *_slice_arguments(b, slot))
    elif which == 2:
        b.call(aten.select.int, slot, _dim(b, slot), b.draw(2))
    elif which == 3:
        b.call(aten.transpose.int, slot, 0, _dim(b, slot))
    elif which == 4:
        b.call(b.one_of((aten.view.default, aten.reshape.default)), slot, [-1])
    elif which == 5:
        b.call(aten.unsqueeze.default, slot, _dim(b, slot))
    elif which == 6:
        b.call(aten.diagonal.default, slot)
    elif which == 7:
        expanded(b)
    else:
        strided(b)


def turned(b: Builder) -> None:
    """Two dimensions swapped, and mostly something computed there: the result lies as the swapped value does."""
    slot = b.pool[b.draw(len(b.live_inputs))] if b.draw(2) else b.tensor()
    swapped = b.call(aten.transpose.int, slot, _dim(b, slot), _dim(b, slot))
    if swapped is not None and b.draw(3):
        b.call(b.one_of(_UNARY[:4]), swapped)


def expanded(b: Builder) -> None:
    slot = b.call(aten.unsqueeze.default, b.tensor(), 0)
    if slot is not None:
        b.call(aten.expand.default, slot, [2, *slot.value.size()[1:]])


def strided(b: Builder) -> None:
    """Windows into a storage, overlapping ones among them."""
    slot = b.tensor()
    length = slot.value.untyped_storage().nbytes() // max(1, slot.value.itemsize)
    if length < 4:
        return
    size, stride = b.one_of((([2, 2], [1, 1]), ([2, 2], [2, 1]), ([3], [1]), ([2], [2])))
    offset = b.draw(length - 3)
    b.call(aten.as_strided.default, slot, size, stride, offset)


def split(b: Builder) -> None:
    import operator

    pieces = b.call(aten.split.Tensor, b.tensor(), 2, 0)
    if pieces is not None:
        for index in range(len(pieces.value)):
            b.call(operator.getitem, pieces, index)


def scatter(b: Builder) -> None:
    """A view, something computed from it or not, and the scatter that puts it back."""
    base = b.tensor()
    op, view_op, args = _scatter_of(b, base)
    slot = b.call(view_op, base, *args)
    if slot is None:
        return
    source: Slot | None = slot
    which = b.draw(4)
    if which == 0:
        source = b.call(aten.add.Tensor, slot, 1)
    elif which == 1:
        source = b.call(aten.fill.Scalar, slot, 7)
    elif which == 2:
        source = b.like(slot)
    if source is not None:
        b.call(op, base, source, *args)


def _scatter_of(b: Builder, base: Slot) -> tuple[Any, Any, tuple[Any, ...]]:
    which = b.draw(4)
    if which == 0:
        return aten.slice_scatter.default, aten.slice.Tensor, _slice_arguments(b, base)
    if which == 1:
        return aten.select_scatter.default, aten.select.int, (_dim(b, base), b.draw(2))
    if which == 2:
        return aten.diagonal_scatter.default, aten.diagonal.default, ()
    return aten.as_strided_scatter.default, aten.as_strided.default, ([2], [1], b.draw(3))


def index(b: Builder) -> None:
    base = b.tensor()
    at = b.call(aten.arange.default, 1 + b.draw(2), dtype=torch.int64)
    if at is None:
        return
    which = b.draw(3)
    if which == 0:
        rows = b.call(aten.index_select.default, base, 0, at)
        if rows is not None:
            b.call(aten.index_put.default, base, [at], rows, bool(b.draw(2)))
    elif which == 1:
        b.call(aten.index_fill.int_Scalar, base, 0, at, 3)
    else:
        rows = b.call(aten.index_select.default, base, 0, at)
        if rows is not None:
            b.call(b.one_of((aten.index_copy.default, aten.index_add.default)), base, 0, at, rows)


def mask(b: Builder) -> None:
    base = b.tensor()
    condition = b.call(aten.gt.Scalar, base, 0)
    if condition is not None:
        b.call(aten.masked_fill.Scalar, base, condition, 2)


def combine(b: Builder) -> None:
    first = b.tensor()
    second = b.like(first) if b.draw(2) else b.tensor()
    which = b.draw(4)
    if which <= 1:
        b.call(aten.cat.default, [first, second], _dim(b, first))
    elif which == 2:
        b.call(aten.stack.default, [first, second])
    else:
        b.call(aten.sum.dim_IntList, first, [_dim(b, first)], bool(b.draw(2)))


def concatenated(b: Builder) -> None:
    """Results that exist only to be concatenated."""
    base = b.tensor()
    parts = [
        b.call(b.one_of((aten.neg.default, aten.abs.default)), base),
        b.call(b.one_of((aten.add.Tensor, aten.mul.Tensor)), base, b.draw(3)),
    ]
    if all(part is not None for part in parts):
        b.call(aten.cat.default, parts, _dim(b, base))


def foreach(b: Builder) -> None:
    import operator

    pair = [b.tensor(), b.tensor()]
    results = b.call(aten._foreach_add.Scalar, pair, 1)
    if results is not None:
        for position in range(len(pair)):
            if b.draw(3):
                b.call(operator.getitem, results, position)


def write(b: Builder) -> None:
    """A write in place, into inputs, views and intermediates alike."""
    slot = b.tensor()
    which = b.draw(4)
    if which == 0:
        b.call(aten.add_.Tensor, slot, 1)
    elif which == 1:
        b.call(aten.copy_.default, slot, b.tensor())
    elif which == 2:
        b.call(aten.fill_.Scalar, slot, 2)
    else:
        b.call(aten.mul_.Tensor, slot, b.tensor())


#: Instructions of functional programs: nothing writes, except the copies into inputs at the end.
FUNCTIONAL: Final[tuple[Instruction, ...]] = (
    unary,
    unary,
    scalar,
    scalar,
    binary,
    binary,
    ternary,
    cast,
    identity,
    view,
    view,
    view,
    turned,
    split,
    scatter,
    scatter,
    scatter,
    index,
    mask,
    combine,
    concatenated,
    foreach,
)

#: Functional instructions and writes in place.
IMPERATIVE: Final[tuple[Instruction, ...]] = (*FUNCTIONAL, write, write, write, write, write)
