"""What a pass changed, line by line: the nodes that are not as they were."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_NODE: Final = re.compile(r"^\s*%(\w+) : \[num_users=\d+\] = (.*)$", re.M)
_LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Change:
    """One node before and after; empty where it was not there."""

    name: str
    before: str
    after: str


def changes(before: str, after: str) -> list[Change]:
    """The nodes that differ between two texts of a graph, in their order; how often one is used is no difference."""
    old, new = _nodes(before), _nodes(after)
    names = [*new, *(name for name in old if name not in new)]
    return [
        Change(name, _short(old.get(name, "")), _short(new.get(name, "")))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _nodes(text: str) -> dict[str, str]:
    return {found[1]: f"{found[1]} = {found[2]}" for found in _NODE.finditer(text)}


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
