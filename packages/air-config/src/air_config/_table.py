"""The table that `show()` prints: each option, its value in effect, and where that comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from air_config._layers import Origin
from air_config._notice import Notice
from air_config._tree import OPTIONS

__all__ = ["table"]


def table(
    values: Mapping[str, Any],
    origins: Mapping[str, Origin],
    notices: Sequence[Notice] = (),
    quiet: Mapping[str, str] = MappingProxyType({}),
    *,
    everything: bool = True,
) -> str:
    """Aligned text, one line an option; the notices below it."""
    by_option: dict[str, list[Notice]] = {}
    for notice in notices:
        by_option.setdefault(notice.option, []).append(notice)
    rows = [("option", "value", "origin")]
    for path, value in values.items():
        touched = by_option.get(path, [])
        if everything or touched or origins[path].layer != "default" or value != OPTIONS[path].default:
            told = [f"{each.effect} by {each.rule}" for each in touched]
            if path in quiet:
                told.append(f"out of action by {quiet[path]}")
            origin = ", ".join([str(origins[path]), *told])
            rows.append((path, repr(value), origin))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}".rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    if notices:
        lines += ["", "notices", *(f"  {notice}" for notice in notices)]
    return "\n".join(lines) + "\n"
