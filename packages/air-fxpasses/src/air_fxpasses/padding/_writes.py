"""Rules for writing rows by number: into a cache, say, at the slots that the caller gives for each row of a batch.

Padding holds copies of the first rows.  Where both the numbers and what is written are such copies, padding writes
what the first row writes, to the place where the first row writes it: nothing else changes.  That ends where an
element depends on its own place (`arange`), or where what is written is added up.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Final

import torch
from torch.fx import Node

from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Label, Labels, Unproven, joined, without

ADDED: Final = "rows of padding would be added to it"
PLACED: Final = "rows of padding would be written into it: what is written there depends on its own place"
PADDED: Final = "it writes into rows of which some are padding"

EMPTY: Final = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
BY_PLACE: Final = ("tril", "triu")
CUMULATIVE: Final = ("cummax", "cummin", "cumprod", "cumsum", "logcumsumexp")


def depends_on_place(call: Call, labels: Labels) -> bool:
    """Whether padding of a result is no copies of its first rows, although that of the arguments is."""
    name = call.schema.name.partition("::")[2].removesuffix("_copy")
    if name == "arange" or name in EMPTY:
        return True
    if name in BY_PLACE:
        return not without(labels[-2:])
    if name in CUMULATIVE:
        return bool(labels) and labels[call.dims("dim", len(labels))[0]] is not None
    if name == "slice":
        return call.labels() != labels
    return bool(call["is_causal"]) and not without(labels[-2:-1])


def require_copies(call: Call, *arguments: Any) -> None:
    """Refuses unless padding of these tensors is copies of their first rows."""
    padded = [one for one in arguments if isinstance(one, Node) and call.is_padded(one)]
    if any(one not in call.copies for one in padded):
        raise Unproven(PLACED)
    call.rely_on_copies(bool(padded))


def own_rows(call: Call) -> Set[Node]:
    """Of an `index`, the numbers that pick for each row of the result the same row of the padded dimension."""
    if call.schema.name != "aten::index":
        return frozenset()
    labels = call.labels()
    given = list(zip(call["indices"], labels, strict=False))
    return {one for one, label in given if label is not None} - {one for one, label in given if label is None}


def part(call: Call) -> tuple[Labels, ...]:
    """`slice_scatter` and `select_scatter`: part of each row is replaced, by rows that lie alike."""
    labels, source = call.labels(), list(call.labels("src"))
    (dim,) = call.dims("dim", len(labels))
    if len(source) < len(labels):
        source.insert(dim, None)
    call.require_none([labels[dim], source[dim]], "part of the padded dimension is replaced")
    if tuple(source) != labels:
        raise Unproven("its operands are padded in different places")
    return (labels,)


def beside(indexed: Sequence[int], picked: Labels, rest: Sequence[Label | None]) -> Labels:
    """The labels of indexed dimensions among the others: where they were if they lie together, else in front."""
    together = list(indexed) == list(range(indexed[0], indexed[-1] + 1))
    place = indexed[0] if together else 0
    return (*rest[:place], *picked, *rest[place:])


def index_put(call: Call) -> tuple[Labels, ...]:
    """`x[i, :, j] = values`"""
    labels = call.labels()
    call.require_none(labels, PADDED)
    if call["accumulate"]:
        raise Unproven(ADDED)
    given = [one for one in call["indices"] if one is not None]
    if any(call.value(one).dtype in (torch.bool, torch.uint8) for one in given):
        raise Unproven(PLACED)
    require_copies(call, *given, call["values"])
    operands = list(call.tensors("indices"))
    picked = joined(operands, max(len(sizes) for sizes, _ in operands))
    indexed = [d for d, one in enumerate(call["indices"]) if one is not None]
    written = beside(indexed, picked, [None] * (len(labels) - len(indexed)))
    joined([((None,) * len(written), written), call.one("values")], len(written))
    return (labels,)


def index_copy(call: Call) -> tuple[Labels, ...]:
    """Rows of a dimension, by number: `index_copy` and `index_fill`."""
    labels = call.labels()
    call.require_none(labels, PADDED)
    require_copies(call, call["index"], call["source"])
    (dim,) = call.dims("dim", len(labels))
    source = call.labels("source")
    if any(label is not None for d, label in enumerate(source) if d != dim):
        raise Unproven(PLACED)
    return (labels,)


def scatter(call: Call) -> tuple[Labels, ...]:
    """Elements along a dimension, by number; along the others each goes to its own place."""
    labels = call.labels()
    call.require_none(labels, PADDED)
    if call["reduce"] is not None:
        raise Unproven(ADDED)
    require_copies(call, call["index"], call["src"])
    numbers = call.labels("index")
    (dim,) = call.dims("dim", len(labels))
    if any(label is not None for d, label in enumerate(numbers) if d != dim):
        raise Unproven(PLACED)
    if isinstance(call["src"], Node) and call.labels("src") != numbers:
        raise Unproven("its operands are padded in different places")
    return (labels,)
