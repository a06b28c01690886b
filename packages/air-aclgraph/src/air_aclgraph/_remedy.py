"""What to advise where a graph has more keys than captures: by what two of them differ in.

(8, 128), (9, 128)    sizes      pad them to fewer
('0.51',), ('0.52',)  a number   give it as a tensor on the device: one capture serves all its values
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Sequence

from torch.fx.experimental.symbolic_shapes import free_symbols

from air_aclgraph._numbers import symbols_of_sizes
from air_aclgraph._slots import Kind, Slot
from air_graph import source_of

SIZES = "pad sizes to fewer (set_dim_buckets, not in training)"


def remedy(slots: Sequence[Slot], without: Collection[int], key: Hashable, other: Hashable) -> str:
    """What would make two keys of a graph one; `without` names the inputs that are no part of them."""
    values = [slot for slot in slots if slot.kind is Kind.VALUE and slot.index not in without]
    if not values or not isinstance(key, tuple) or not isinstance(other, tuple):
        return SIZES
    places = [place for place, (one, two) in enumerate(zip(key, other, strict=False)) if one != two]
    sizes = symbols_of_sizes(values[0].node.graph)
    numbers = [
        values[place]
        for place in places
        if place < len(values) and not free_symbols(values[place].node.meta.get("val")) & sizes
    ]
    if not numbers or len(numbers) < len(places):
        return SIZES
    return f"give what differs, a number of the host, as a tensor on the device ({'; '.join(map(_used, numbers))})"


def _used(slot: Slot) -> str:
    """The nearest line of the program that uses a number, or else its place: torch's own nodes have no line."""
    near, seen = deque([slot.node]), {slot.node}
    while near:
        node = near.popleft()
        if (line := source_of(node)) is not None:
            return str(line)
        near.extend(user for user in node.users if user not in seen)
        seen.update(node.users)
    return f"input {slot.index}"
