"""Prints rows as a table of aligned columns."""

from __future__ import annotations

from collections.abc import Sequence


def text(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = True) -> str:
    """The table; the first column is aligned to the left, the others to the right unless told otherwise."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    every = [head, ["-" * width for width in widths], *rows]
    return "\n".join(_line(row, widths, right).rstrip() for row in every)


def _line(cells: Sequence[str], widths: Sequence[int], right: bool) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join(
        [
            first[0].ljust(first[1]),
            *(cell.rjust(width) if right else cell.ljust(width) for cell, width in rest),
        ]
    )
