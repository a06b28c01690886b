"""Operators on lists, in place, whose tensors lie over one another: called for one element after the other.

    torch._foreach_mul_([x, x], 2)          torch._foreach_mul_([x], 2)
                                            torch._foreach_mul_([x], 2)

Eager works through the lists and reads what it has written. AOTAutograd makes one functional operator of the call,
which reads all that was there before, and writes one of the two: here x would be twice what it was, and not four times.
Only on the CPU: kernels of devices take all elements at once, in no order.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from air_backend._shared_memory import stretch_of
from air_graph import Stretches, by_storage


def call_one_by_one(gm: GraphModule) -> None:
    """Writes such calls anew, also in the graphs inside this one."""
    for module in gm.modules():
        if isinstance(module, GraphModule):
            for node in [one for one in module.graph.nodes if _is_in_place(one) and _overlaps(_lists(one))]:
                _split(module, node)


def _is_in_place(node: Node) -> bool:
    if node.op != "call_function":
        return False
    name = str(getattr(node.target, "__name__", "")).partition(".")[0]
    return name.startswith("_foreach_") and name.endswith("_")


def _lists(node: Node) -> list[list[Any]]:
    """The lists of a call, the written one first."""
    given = chain(node.args, node.kwargs.values())
    return [list(one) for one in given if isinstance(one, (list, tuple))]


def _overlaps(lists: list[list[Any]]) -> bool:
    """Whether what one element writes is read or written by another one."""
    places = [(at, _value(one)) for each in lists for at, one in enumerate(each)]
    for group in by_storage(value for _, value in places):
        if len(group) > 1:
            stretches = [stretch_of(places[one][1], places[one][0]) for one in group]
            written = Stretches(
                one for one, place in zip(stretches, group, strict=True) if place < len(lists[0])
            )
            if any(map(written.meet, stretches)):
                return True
    return False


def _value(one: Any) -> Any:
    if not isinstance(one, Node):
        return None
    value = one.meta.get("example_value", one.meta.get("val"))
    is_looked_at = isinstance(value, Tensor) and value.layout is torch.strided and value.device.type == "cpu"
    return value if is_looked_at else None


def _split(module: GraphModule, node: Node) -> None:
    count = len(_lists(node)[0])
    with module.graph.inserting_before(node):
        for at in range(count):
            args = [_element(one, at) for one in node.args]
            keywords = {name: _element(one, at) for name, one in node.kwargs.items()}
            call = module.graph.call_function(node.target, tuple(args), keywords)  # type: ignore[arg-type]
            call.meta.update(node.meta)
    module.graph.erase_node(node)


def _element(argument: Any, at: int) -> Any:
    """A list with one of its elements; anything else as it is."""
    return [argument[at]] if isinstance(argument, (list, tuple)) else argument
