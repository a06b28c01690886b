"""Texts for reports: where an FX node comes from, and why it was refused."""

from __future__ import annotations

from torch import fx

import air_graph
from air_geir.errors import GeirError
from air_geir.ir import Origin
from air_graph.page import module_of


def source_of(node: fx.Node) -> str | None:
    """`model.py:88   logits = self.head(x)`, or None when the graph does not say."""
    line = air_graph.source_of(node)
    return None if line is None else str(line)


def origin_of(node: fx.Node) -> Origin:
    """Where what is made of an FX node comes from."""
    return Origin(node.name, source_of(node), module_of(node))


def reason_of(refused: GeirError) -> str:
    """Why something was refused, and what to do about it."""
    return f"{refused.what}; {refused.advice}" if refused.advice else refused.what
