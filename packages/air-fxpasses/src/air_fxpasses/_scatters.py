"""What a scatter operator replaces in the memory of its base, and so does not read."""

from __future__ import annotations

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from air_fxpasses._facts import Facts
from air_graph import (
    SCATTERS,
    Region,
    is_dense,
    read_alike,
    repeated_element,
    surely_within,
    view_arguments,
)

aten = torch.ops.aten


def slot_region(facts: Facts, node: Node, base: Node) -> Region | None:
    """The part of `base` that scatter `node` replaces, and so does not read; `None` when it reads all.

    Where elements of `base` share an address, the others are read there, so no part is left unread. An
    `as_strided` slot may also lie beside the elements of its base, in the gaps between them: then what is
    replaced depends on how the base is copied, and nothing is claimed.
    """
    view = SCATTERS.get(node.target)
    if view is None or len(node.args) < 2 or node.args[0] is not base or node.args[1] is base:
        return None
    if repeated_element(facts.region(base)) is not None:
        return None
    args, kwargs = view_arguments(node)
    args, kwargs = map_arg((args, kwargs), lambda n: n.meta["val"])
    with facts.values.active():
        slot = view(facts.value(base), *args, **kwargs)
    replaced = Region.of(slot)
    if view is aten.as_strided.default and not _is_part(replaced, facts.region(base)):
        return None
    return replaced


def is_in_slot(facts: Facts, source: Node, base: Node, slot: Region) -> bool:
    """Whether what a scatter would put into the slot of its base is there already."""
    return (
        facts.storage(source) == facts.storage(base)
        and facts.region(source).same(slot)
        and read_alike(facts.value(source), facts.value(base))
    )


def _is_part(slot: Region, base: Region) -> bool:
    return is_dense(base) and surely_within(slot, base) and repeated_element(slot) is None
