"""The process groups over which a graph averages.

An average is a sum that is divided by the number of ranks, and that number is a constant of the compiled graph. A group
that is destroyed and made anew under the same name may have another number of ranks: the graph is compiled again.
"""

from __future__ import annotations

import torch
from torch import fx

from air_graph import named_arguments
from air_graph.ranks import Groups, group_named


class AveragedGroups:
    """The groups that the averages of a graph name, and how many ranks they had when it was compiled."""

    def __init__(self, gm: fx.GraphModule) -> None:
        self._names = _names(gm)
        self._note()

    def __bool__(self) -> bool:
        return bool(self._names)

    def are_of_other_sizes(self) -> bool:
        """Whether a name means a group of another number of ranks than when this was last asked."""
        if not self._meant.are_others():
            return False
        before = self._sizes
        self._note()
        return self._sizes != before

    def _note(self) -> None:
        self._meant = Groups(self._names)
        groups = map(group_named, self._names)
        self._sizes = [None if group is None else group.size() for group in groups]


def _names(gm: fx.GraphModule) -> tuple[str, ...]:
    if not torch.distributed.is_available():
        return ()
    operator = torch.ops._c10d_functional.all_reduce.default
    calls = gm.graph.find_nodes(op="call_function", target=operator)
    given = [named_arguments(node, operator) for node in calls]
    names = (str(one["group_name"]) for one in given if str(one["reduce_op"]).lower() == "avg")
    return tuple(dict.fromkeys(names))
