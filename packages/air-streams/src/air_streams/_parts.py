"""Writes to a part of a tensor, which AOTAutograd turns into operators that make the whole tensor anew.

    out[:4].mul_(2)     # on "a"          copy = slice_scatter(out, mul, 0, 0, 4)     # on "a"
    z = out[4:] + 1     # beside it  ->   z = copy[4:] + 1                            # beside it: must wait for "a"

The program is right: the two touch no byte in common. In the graph they do, since the copy moves all bytes. So the
graph needs waits that the program does not, and they are no fault of its author.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from air_graph import SCATTERS, view_arguments
from air_streams._program import Program
from air_streams._storages import Access, Region, Storage, common, part_of_view


def writes_a_part(node: Node) -> bool:
    """Whether a node stands for a write to a part of a tensor."""
    return node.target in SCATTERS


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
    args, kwargs = view_arguments(node)
    return part_of_view(part, value, SCATTERS[node.target](value, *args, **kwargs)).region
