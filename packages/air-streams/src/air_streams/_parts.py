"""Writes to a part of a tensor, which AOTAutograd turns into operators that make the whole tensor anew.

    out[:4].mul_(2)     # on "a"          copy = slice_scatter(out, mul, 0, 0, 4)     # on "a"
    z = out[4:] + 1     # beside it  ->   z = copy[4:] + 1                            # beside it: must wait for "a"

The program is right: the two touch no byte in common. In the graph they do, since the copy moves all bytes. So the
graph needs waits that the program does not, and they are no fault of its author.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from air_streams._program import Program
from air_streams._storages import Access, Region, Storage, common, part_of_view

aten = torch.ops.aten

_PART: Final[dict[Any, OpOverload]] = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
    aten.diagonal_scatter.default: aten.diagonal.default,
    aten.as_strided_scatter.default: aten.as_strided.default,
}
"""Which view of a tensor each of them writes; its arguments after the source say where."""


def writes_a_part(node: Node) -> bool:
    """Whether a node stands for a write to a part of a tensor."""
    return node.target in _PART


def apart_in_the_program(program: Program, first: Node, second: Node, storage: Storage) -> bool:
    """Whether the two touch one storage because of such a copy alone; where it cannot be told, they do not."""
    if not (writes_a_part(first) or writes_a_part(second)):
        return False
    return not any(
        (one_writes or other_writes) and common((one,), other)
        for one, one_writes in _touched(program, first, storage)
        for other, other_writes in _touched(program, second, storage)
    )


def _touched(program: Program, node: Node, storage: Storage) -> Iterator[tuple[Region, bool]]:
    """The bytes of a storage that the node touches in the program, and whether it writes them."""
    for number, access in enumerate(program.memory.accesses[node]):
        if access.storage is not storage:
            continue
        if writes_a_part(node) and (number == 0 or storage.allocator is node):
            yield _written(program, node, access), True
        else:
            yield access.region, access.writes


def _written(program: Program, node: Node, access: Access) -> Region:
    base: Any = node.args[0] if access.storage.allocator is not node else node
    value = base.meta.get("val") if isinstance(base, Node) else None
    by_size = any(given not in node.args[:2] for given in node.all_input_nodes)
    if not isinstance(value, torch.Tensor) or by_size:
        return access.region
    part = program.memory.values[base].parts[0]
    return part_of_view(part, value, _PART[node.target](value, *node.args[2:], **node.kwargs)).region
