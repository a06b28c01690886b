"""`with data_dump():` marks the operators inside, so that a dump writes their tensors and no others.

The mark is torch's own annotation of FX nodes: Dynamo and AOTAutograd carry it along.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from torch import fx
from torch.fx import traceback

MARK: Final = "air.data_dump"


def data_dump() -> AbstractContextManager[None]:
    """A block of a model whose tensors are written when a dump is asked for; without one it does nothing."""
    return traceback.annotate({MARK: True})


def is_marked(node: fx.Node) -> bool:
    """Whether a node was traced inside such a block."""
    custom = node.meta.get("custom") or {}
    return bool(custom.get(MARK))


def chosen(gm: fx.GraphModule) -> frozenset[fx.Node] | None:
    """The marked nodes of a graph, or None when nothing is marked and everything counts."""
    marked = frozenset(node for node in gm.graph.nodes if is_marked(node))
    return marked or None
