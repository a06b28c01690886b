"""The progress bar on the terminal for long work: a capture, a conversion, static kernels, the demo.

    decoder key (7,)  [##########..........]  4120 of 8192 operators

It is drawn on standard error, when that is a terminal and the work takes long enough to be noticed, and removed when
the work is done; only the log stays. Work inside other work that shows a bar draws none: there is one bar at a time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

PATIENCE_S: Final = 0.3
PAUSE_S: Final = 0.1
_CELLS: Final = 20
_WIPE: Final = "\r\x1b[K"

_shown: Final[list[Progress]] = []


class Progress:
    """How far some work has come."""

    def __init__(
        self, total: int, stream: TextIO, patience_s: float = PATIENCE_S, *, unit: str = "operators"
    ) -> None:
        self.total = total
        self.unit = unit
        self._stream = stream
        self._patience_s = patience_s
        self._text: str | None = None
        self._done = 0
        self._next = 0.0
        self._drawn = False

    def begin(self, text: str) -> None:
        """Work begins; `text` says of what."""
        self._text, self._done, self._drawn = text, 0, False
        self._next = time.monotonic() + self._patience_s
        _shown.append(self)

    def advance(self, count: int = 1, text: str | None = None) -> None:
        """So much more has been done; the text may change on the way."""
        self._done += count
        if self._text is not None and text is not None:
            self._text = text
        if self._text is None or time.monotonic() < self._next:
            return
        done = min(self._done, self.total)
        bar = ("#" * (_CELLS * done // self.total)).ljust(_CELLS, ".")
        self.draw(f"{self._text}  [{bar}]  {done} of {self.total} {self.unit}")

    def draw(self, line: str) -> None:
        """Puts a line in the place of the bar, unless another one is shown."""
        if not _shown or _shown[0] is not self:
            return
        self._next = time.monotonic() + PAUSE_S
        self._drawn = True
        self._stream.write(f"{_WIPE}{line}")
        self._stream.flush()

    def end(self) -> None:
        """The work is over, well or not: nothing stays on the terminal."""
        if self._drawn:
            self._stream.write(_WIPE)
            self._stream.flush()
        if self in _shown:
            _shown.remove(self)
        self._text, self._drawn = None, False


@contextmanager
def showing(progress: Progress | None, text: str) -> Iterator[Progress | None]:
    """Shows the progress of the work inside."""
    if progress is None:
        yield None
        return
    progress.begin(text)
    try:
        yield progress
    finally:
        progress.end()


def progress_on_terminal(total: int, *, unit: str = "operators", wanted: bool = True) -> Progress | None:
    """The bar for work of so many units; None where standard error is no terminal, or the bar is not wanted."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        return None
    return Progress(max(1, total), sys.stderr, unit=unit)
