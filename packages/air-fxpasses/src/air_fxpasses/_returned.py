"""Whether the caller of a graph is given a value, or a view of it."""

from __future__ import annotations

from torch.fx import Node

from air_graph import link_of


def returned_by(node: Node) -> Node | None:
    """The output, where the caller gets this value or a view of it."""
    waiting = [node]
    for one in waiting:
        for user in one.users:
            if user.op == "output":
                return user
            if (link := link_of(user)) is not None and link.base is one:
                waiting.append(user)
    return None
