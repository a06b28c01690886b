"""A bar on the terminal while a capture runs.

    decoder key (7,)  [##########..........]  4120 of 8192 operators

The straight function that a capture runs reports after every few operators; replays do not run it, so they pay
nothing.  The bar is drawn on standard error when that is a terminal and the capture takes long enough to be
noticed, and is wiped when it is done.  What stays is the line per capture in the log.  `ACLGRAPH_PROGRESS=0`
switches it off.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO

from torch.fx import Node

from air_aclgraph._straight import Lowering, Step
from air_config import variables

PATIENCE_S: Final = 0.3
PAUSE_S: Final = 0.1
REPORTS: Final = 100
_CELLS: Final = 20


class Progress:
    """How far the capture that is running has come."""

    def __init__(self, total: int, stream: TextIO, patience_s: float = PATIENCE_S) -> None:
        self.total = total
        self._stream = stream
        self._patience_s = patience_s
        self._text: str | None = None
        self._done = 0
        self._next = 0.0
        self._drawn = False

    def begin(self, text: str) -> None:
        """A capture begins; `text` says of what."""
        self._text, self._done, self._drawn = text, 0, False
        self._next = time.monotonic() + self._patience_s

    def advance(self, count: int) -> None:
        """So many more operators have been captured."""
        self._done += count
        if self._text is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + PAUSE_S
        self._drawn = True
        done = min(self._done, self.total)
        bar = ("#" * (_CELLS * done // self.total)).ljust(_CELLS, ".")
        self._stream.write(f"\r\x1b[K{self._text}  [{bar}]  {done} of {self.total} operators")
        self._stream.flush()

    def end(self) -> None:
        """The capture is over, well or not: nothing stays on the terminal."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        self._text, self._drawn = None, False


@contextmanager
def showing(progress: Progress | None, text: str) -> Iterator[None]:
    """Shows the progress of the capture inside."""
    if progress is None:
        yield
        return
    progress.begin(text)
    try:
        yield
    finally:
        progress.end()


def progress_of(nodes: Sequence[Node]) -> Progress | None:
    """Where to show the captures of a graph; None where nobody looks at a terminal."""
    if not variables.switch("ACLGRAPH_PROGRESS", True) or not sys.stderr.isatty():
        return None
    return Progress(max(1, sum(node.op.startswith("call_") for node in nodes)), sys.stderr)


class Reporting:
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
