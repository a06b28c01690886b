"""The line of the user's program an FX node comes from, as text."""

from __future__ import annotations

from torch import fx

import air_graph


def source_of(node: fx.Node) -> str | None:
    """`model.py:88   logits = self.head(x)`, or None when the graph does not say."""
    line = air_graph.source_of(node)
    return None if line is None else str(line)
