"""Conditions on process groups, and on what is reached through them: a file holds no group.

    self.group                     which type it has
    self.group.group_name          '0'

Torch writes nothing of a group, and could not look its name up in another process. So these are compared as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import distributed


def on_groups(guards: Sequence[Any]) -> list[bool]:
    """Which of Dynamo's conditions are on a group, or on what is reached through one."""
    if not distributed.is_available():
        return [False] * len(guards)
    groups = {_source(one).name for one in guards if isinstance(one.value, distributed.ProcessGroup)}
    return [any(name in groups for name in _path(_source(guard))) for guard in guards]


def name_of_group(guard: Any) -> str | None:
    """The expression for the name of the group that a condition is on: torch 2.11 asks for its identity alone."""
    is_group = distributed.is_available() and isinstance(guard.value, distributed.ProcessGroup)
    return f"{guard.name}.group_name" if is_group else None


def _source(guard: Any) -> Any:
    return guard.orig_guard.originating_source


def _path(source: Any) -> Iterator[str]:
    """The expression of a source, and of each that it is reached through."""
    while source is not None:
        yield source.name
        source = getattr(source, "base", None)
