"""The bar on the terminal while a capture runs.

The straight function that a capture runs reports after every few operators; replays do not run it, so they pay nothing.
What stays is the line per capture in the log. `ACLGRAPH_PROGRESS=0` switches every bar of AIR off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torch.fx import Node

from air_aclgraph._straight import Lowering, Step
from air_config import variables
from air_graph.progress import Progress, progress_on_terminal

REPORTS: Final = 100


def progress_of(nodes: Sequence[Node]) -> Progress | None:
    """Where to show the captures of a graph; None where nobody looks at a terminal."""
    wanted = variables.switch("ACLGRAPH_PROGRESS", True)
    return progress_on_terminal(sum(node.op.startswith("call_") for node in nodes), wanted=wanted)


class Reporting(Lowering):
    """A lowering that reports after every few operators, on top of another."""

    def __init__(self, lowering: Lowering, progress: Progress) -> None:
        self._inner = lowering
        self._progress = progress
        self._every = max(1, progress.total // REPORTS)
        self._count = 0

    def before(self, node: Node) -> Sequence[Step]:
        return self._inner.before(node)

    def runs(self, node: Node) -> bool:
        return self._inner.runs(node)

    def after(self, node: Node) -> Sequence[Step]:
        steps = self._inner.after(node)
        if not node.op.startswith("call_"):
            return steps
        self._count += 1
        if self._count % self._every:
            return steps
        return (*steps, Step(self._progress.advance, (self._every,)))
