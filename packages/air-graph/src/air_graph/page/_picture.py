"""What a picture of a graph consists of, whatever kind of graph it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

KINDS = ("input", "heavy", "pointwise", "reduce", "view", "write", "other", "output")
"""What colours tell apart."""


@dataclass(frozen=True, slots=True)
class PageNode:
    """One node."""

    name: str
    operator: str
    kind: str
    inputs: tuple[int, ...]
    """The nodes it reads, by their places in the picture."""
    module: str = ""
    """The module that called it, `blocks.0.attention`; what a picture is folded by."""
    source: str = ""
    """The user's line, as `str(SourceLine)` has it."""
    detail: str = ""
    """What it gives: dtype and sizes."""
    nbytes: int = 0
    """The memory that it fills again."""
    notes: tuple[str, ...] = ()
    """What was refused about it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One graph."""

    title: str
    nodes: Sequence[PageNode]
    text: str = ""
    """What is said beside it while nothing is selected."""
