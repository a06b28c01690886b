"""Rules for operators that move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations

from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Label, Labels, PaddedSize, Unproven, joined

ONE = sympy.Integer(1)
WHOLE = 2**62  # more than any tensor has: `x[a:]` ends here


def view(call: Call) -> tuple[Labels, ...]:
    """A view keeps the order of the elements: each dimension with padding is found again behind as many others."""
    sizes, labels = call.one()
    (out,) = call.outputs()
    places = _places(sizes, labels)
    factors = [call.padded.multiple(size) for size in out.shape]
    if len(places) != sum(factor is not None for factor in factors):
        raise Unproven("a view merges or splits the padded size with itself")
    result: list[Label | None] = []
    before = ONE
    for size, factor in zip(call.padded.sizes_of(out), factors, strict=True):
        if factor is None:
            result.append(None)
            before *= size
            continue
        outer = _quotient(places.pop(0), before)
        inner = _quotient(factor, outer)
        result.append(Label(outer, inner))
        before *= outer * inner
    return (tuple(result),)


def _places(sizes: tuple[Any, ...], labels: Labels) -> list[Any]:
    """The product of all sizes in front of each padded size, without padded sizes themselves."""
    places, before = [], ONE
    for size, label in zip(sizes, labels, strict=True):
        if label is None:
            before *= size
        else:
            places.append(before * label.outer)
            before *= label.outer * label.inner
    return places


def _quotient(number: Any, divisor: Any) -> Any:
    result = sympy.cancel(number / divisor)
    if sympy.fraction(result)[1] != 1:
        raise Unproven(f"a view cuts through the padded size: {number} is no multiple of {divisor}")
    return result


def expand(call: Call) -> tuple[Labels, ...]:
    """Repeats dimensions of size 1, to the padded size too: every repetition is the same."""
    sizes, labels = call.one()
    (out,) = call.outputs()
    fresh = call.padded.at_the_end(out)
    new = len(fresh) - len(sizes)
    kept = [
        fresh[new + dim] if size == 1 else label
        for dim, (size, label) in enumerate(zip(sizes, labels, strict=True))
    ]
    return ((*fresh[:new], *kept),)


def permute(call: Call) -> tuple[Labels, ...]:
    labels = call.labels()
    return (tuple(labels[dim] for dim in call.dims("dims", len(labels))),)


def transpose(call: Call) -> tuple[Labels, ...]:
    labels = list(call.labels())
    first, second = call.dims("dim0", len(labels)) + call.dims("dim1", len(labels))
    if labels:
        labels[first], labels[second] = labels[second], labels[first]
    return (tuple(labels),)


def matrix_transpose(call: Call) -> tuple[Labels, ...]:
    return (call.labels()[::-1],)


def unsqueeze(call: Call) -> tuple[Labels, ...]:
    labels = list(call.labels())
    (dim,) = call.dims("dim", len(labels) + 1)
    labels.insert(dim, None)
    return (tuple(labels),)


def squeeze(call: Call) -> tuple[Labels, ...]:
    sizes, labels = call.one()
    dims = call.dims("dim", len(labels))
    return (tuple(label for d, label in enumerate(labels) if d not in dims or sizes[d] != 1),)


def select(call: Call) -> tuple[Labels, ...]:
    """One index of a dimension; a padded one is counted from its beginning, where the caller's elements are."""
    labels = list(call.labels())
    (dim,) = call.dims("dim", len(labels))
    label = labels.pop(dim)
    if label is not None:
        _counted_from_the_beginning(label, call.number("index"), call.padded)
    elif call.padded.is_in(call.number("index")):
        raise Unproven("which element is taken depends on the padded size")
    return (tuple(labels),)


def _counted_from_the_beginning(label: Label, index: Any, padded: PaddedSize) -> None:
    if not label.at_the_end:
        raise Unproven("an element is taken out of a dimension with padding between its elements")
    if padded.is_in(index) or not index.is_nonnegative:
        raise Unproven("an element is counted from the end of the padded dimension, which is padding")


def slice_(call: Call) -> tuple[Labels, ...]:
    """Part of a dimension: of a padded one its beginning or whole blocks.

    Of another one it may be as many elements as the padded size.
    """
    sizes, labels = call.one()
    (out,) = call.outputs()
    (dim,) = call.dims("dim", len(labels))
    start, factor = call.number("start"), call.padded.multiple(out.shape[dim])
    label = labels[dim]
    if label is None:
        bounds = [start, call.number("step", 1)] + ([call.number("end", WHOLE)] if factor is None else [])
        if any(call.padded.is_in(bound) for bound in bounds) or (
            factor is not None and not start.is_nonnegative
        ):
            raise Unproven("where a slice lies depends on the padded size")
        taken = None if factor is None else Label(ONE, factor)
    elif start == 0 and call.padded.sizes_of(out)[dim] == sizes[dim]:
        taken = label
    elif start == 0 and call.number("step", 1) == 1 and label.at_the_end and factor is not None:
        taken = Label(ONE, factor)  # fewer blocks, the caller's still in front
    elif call.number("step", 1) == 1 and factor is not None and _begins_a_block(label, start, call):
        taken = _whole_blocks(label, call.padded.sizes_of(out)[dim], call)
    else:
        _counted_from_the_beginning(label, start, call.padded)
        if factor is not None or not call.number("end", WHOLE).is_nonnegative:
            raise Unproven("a slice of the padded dimension ends in its padding")
        taken = None
    return ((*labels[:dim], taken, *labels[dim + 1 :]),)


def _begins_a_block(label: Label, start: Any, call: Call) -> bool:
    """Whether an index is the first of one of the blocks that end in padding."""
    return bool(sympy.cancel(start / (call.padded.symbol * label.inner)).is_integer is True)


def cat(call: Call) -> tuple[Labels, ...]:
    """Tensors behind one another; along padding each ends in its own: all have some then, in blocks of one length."""
    operands = [(sizes, labels) for sizes, labels in call.tensors("tensors") if sizes != (0,)]
    rank = len(operands[0][0])
    (dim,) = call.dims("dim", rank)
    along = [labels[dim] for _, labels in operands]
    others = [([*sizes[:dim], 1, *sizes[dim + 1 :]], labels) for sizes, labels in operands]
    result = list(joined(others, rank))
    if any(label is not None for label in along):
        result[dim] = _in_turn(along)
    return (tuple(result),)


def _in_turn(labels: Sequence[Label | None]) -> Label:
    """The blocks of several dimensions, one behind another."""
    found = [label for label in labels if label is not None]
    if len(found) < len(labels) or len({label.inner for label in found}) > 1:
        raise Unproven("tensors are put behind one another along the padded dimension")
    return Label(sum((label.outer for label in found), sympy.Integer(0)), found[0].inner)


def stack(call: Call) -> tuple[Labels, ...]:
    operands = list(call.tensors("tensors"))
    labels = list(joined(operands, len(operands[0][0])))
    (dim,) = call.dims("dim", len(labels) + 1)
    labels.insert(dim, None)
    return (tuple(labels),)


def split(call: Call) -> tuple[Labels, ...]:
    """Parts of a dimension without padding, or whole blocks of one where each block ends in padding."""
    labels = call.labels()
    (dim,) = call.dims("dim", len(labels))
    label = labels[dim]
    if label is None:
        if any(call.padded.is_in(number) for _, number in call.numbers()):
            raise Unproven("it is split by the padded size")
        return (labels,) * len(call.outputs())
    return tuple(
        (*labels[:dim], _whole_blocks(label, call.padded.sizes_of(output)[dim], call), *labels[dim + 1 :])
        for output in call.outputs()
    )


def _whole_blocks(label: Label, size: Any, call: Call) -> Label:
    """What a part of that size has of a dimension."""
    factor = call.padded.multiple(size)
    blocks = None if factor is None else sympy.cancel(factor / label.inner)
    if blocks is None or blocks.is_integer is not True:
        raise Unproven("the padded dimension is split")
    return Label(blocks, label.inner)


def unbind(call: Call) -> tuple[Labels, ...]:
    labels = call.labels()
    (dim,) = call.dims("dim", len(labels))
    call.require_none([labels[dim]], "the padded dimension is taken apart")
    return ((*labels[:dim], *labels[dim + 1 :]),) * len(call.outputs())


def as_complex(call: Call) -> tuple[Labels, ...]:
    """Pairs in the last dimension become one number."""
    labels = call.labels()
    call.require_none(labels[-1:], "pairs are made of the padded dimension")
    return (labels[:-1],)


def as_real(call: Call) -> tuple[Labels, ...]:
    return ((*call.labels(), None),)


def reverse(call: Call) -> tuple[Labels, ...]:
    labels = call.labels()
    moved = [labels[dim] for dim in call.dims("dims", len(labels))]
    call.require_none(moved, "the order of the padded dimension is changed")
    return (labels,)


def pad(call: Call) -> tuple[Labels, ...]:
    """`constant_pad_nd`: amounts for the last dimension come first."""
    labels = call.labels()
    amounts = [call.value(amount) for amount in call["pad"]]
    pairs = zip(amounts[::2], amounts[1::2], strict=True)
    touched = [labels[-1 - place] for place, pair in enumerate(pairs) if tuple(pair) != (0, 0)]
    call.require_none(touched, "the padded dimension is enlarged")
    return (labels,)


def repeat(call: Call) -> tuple[Labels, ...]:
    sizes, labels = call.one()
    (out,) = call.outputs()
    fresh = call.padded.at_the_end(out)
    new = len(fresh) - len(sizes)
    for dim, label in enumerate(labels):
        if label is not None and call.padded.sizes_of(out)[new + dim] != sizes[dim]:
            raise Unproven("the padded dimension is repeated: padding would lie in between")
        if label is None and sizes[dim] != 1 and fresh[new + dim] is not None:
            raise Unproven("rows are repeated as often as the padded size says")
    return expand(call)


def triangle(call: Call) -> tuple[Labels, ...]:
    """`tril` and `triu` look at the indices of the last two dimensions, which padding at the end leaves alone."""
    labels = call.labels()
    if any(label is not None and not label.at_the_end for label in labels[-2:]):
        raise Unproven("padding lies between the rows or columns of a triangle")
    return (labels,)
