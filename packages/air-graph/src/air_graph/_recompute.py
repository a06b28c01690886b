"""Example values of views, after what they are views of was replaced.

    held -> clone -> squeeze        `squeeze` was traced as a view of something else, and has to lie in the clone now

Whether values share memory is read from the storages of their example values; a view in the storage of a value that is
gone would look like memory of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

import torch
from torch._guards import detect_fake_mode
from torch.fx import Graph, Node

from air_graph._examples import computed_again
from air_graph._links import link_of


def recompute_views(graph: Graph, changed: Collection[Node]) -> int:
    """Evaluates the views of these values, and views of those, again; says how many there were."""
    known = set(changed)
    mode = detect_fake_mode([node.meta["val"] for node in known]) if known else None
    made = 0
    with mode or contextlib.nullcontext(), torch.no_grad():
        for node in graph.nodes:
            if node in known or not _is_view_of(node, known):
                continue
            node.meta["val"] = computed_again(node)
            known.add(node)
            made += 1
    return made


def _is_view_of(node: Node, values: Collection[Node]) -> bool:
    """Whether a value is a view, or several, of one of these values; by the schema, not by where it was traced."""
    link = link_of(node)
    return link is not None and link.kind != "same" and link.base in values
