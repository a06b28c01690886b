"""Where an FX node comes from: the line of the user's program as text, and the module."""

from __future__ import annotations

from torch import fx

import air_graph
from air_geir.ir import Origin
from air_graph.page import module_of


def source_of(node: fx.Node) -> str | None:
    """`model.py:88   logits = self.head(x)`, or None when the graph does not say."""
    line = air_graph.source_of(node)
    return None if line is None else str(line)


def origin_of(node: fx.Node) -> Origin:
    """Where what is made of an FX node comes from."""
    return Origin(node.name, source_of(node), module_of(node))
