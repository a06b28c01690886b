"""What collectives do to padding. Ranks call them with the same sizes, so all pad alike.

all_reduce        each element is made of those at the same place of all ranks
all_gather        [s, 4] of each of two ranks are [2 * s, 4]: each of two blocks ends in padding
reduce_scatter    the other way round, where each rank gets whole blocks
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations

from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Label, Labels, Unproven

Rule = Callable[[Call], tuple[Labels, ...]]


def in_place(call: Call) -> tuple[Labels, ...]:
    """Each result lies like the tensor that it is made of."""
    return tuple(labels for _, labels in call.tensors())


def gathered(call: Call) -> tuple[Labels, ...]:
    """The tensors of all ranks, one behind another."""
    return tuple(_first(labels, call.number("group_size")) for _, labels in call.tensors())


def scattered(call: Call) -> tuple[Labels, ...]:
    """Each rank gets its part of the first dimension."""
    return tuple(_first(labels, 1 / call.number("group_size")) for _, labels in call.tensors())


def _first(labels: Labels, times: sympy.Expr) -> Labels:
    if not labels or labels[0] is None:
        return labels
    outer = labels[0].outer * times
    if outer.is_integer is not True:
        raise Unproven("each rank gets a part of the padded dimension")
    return (Label(outer, labels[0].inner), *labels[1:])


#: By name, without the namespace of functional collectives.
RULES: Final[Mapping[str, Rule]] = {
    "all_gather_into_tensor": gathered,
    "all_gather_into_tensor_coalesced": gathered,
    "all_reduce": in_place,
    "all_reduce_coalesced": in_place,
    "broadcast": in_place,
    "reduce_scatter_tensor": scattered,
    "reduce_scatter_tensor_coalesced": scattered,
    "wait_tensor": in_place,
}
