"""Prints rows as a table of aligned columns."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

_GAP = 2
_LEAST = 12
"""A column that is folded stays at least so wide."""


def text(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = True, width: int | None = None
) -> str:
    """The table; the first column is aligned to the left, the others to the right unless told otherwise.

    With `width`, the widest columns are folded until the table is no wider.
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    if width is not None:
        widths = _fitted(widths, width - _GAP * (len(widths) - 1))
    every = [head, ["-" * each for each in widths], *rows]
    lines = [_line(cells, widths, right).rstrip() for row in every for cells in _folded(row, widths)]
    return "\n".join(lines)


def terminal_width() -> int:
    """Columns of the terminal; 100 where there is none to ask."""
    return shutil.get_terminal_size((100, 24)).columns


def _fitted(widths: Sequence[int], room: int) -> list[int]:
    """Takes from the widest until all fit."""
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > _LEAST:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def _folded(row: Sequence[str], widths: Sequence[int]) -> list[tuple[str, ...]]:
    cells = [
        [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)
        for cell, width in zip(row, widths, strict=True)
    ]
    return list(zip_longest(*cells, fillvalue=""))


def _line(cells: Sequence[str], widths: Sequence[int], right: bool) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join(
        [
            first[0].ljust(first[1]),
            *(cell.rjust(width) if right else cell.ljust(width) for cell, width in rest),
        ]
    )
