"""Dicts nested like the tree, from values by dotted path and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from air_config import errors
from air_config._option import nearest
from air_config._tree import OPTIONS, Tree, nearest_path

__all__ = ["leaves", "nested"]


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`."""
    made: dict[str, Any] = {}
    for path, value in values.items():
        *outer, name = path.split(".")
        holder = made
        for part in outer:
            holder = cast("dict[str, Any]", holder.setdefault(part, {}))
        holder[name] = value
    return made


def leaves(tree: Mapping[str, Any], group: Any = Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The paths and values of a nested dict; raises for a name the tree does not have."""
    if not isinstance(tree, Mapping):
        raise errors.NotAGroup(prefix.rstrip(".") or "the configuration", tree, _members(group))
    for name, value in tree.items():
        path = f"{prefix}{name}"
        if path in OPTIONS:
            yield path, value
        elif name in group._GROUPS:
            yield from leaves(value, _inner(group, name), f"{path}.")
        else:
            close = nearest(str(name), _members(group))
            meant = prefix + close if close else nearest_path(path)
            raise errors.UnknownOption(path, nearest=meant, known=_members(group))


def _members(group: Any) -> list[str]:
    return [*group._OPTIONS, *group._GROUPS]


def _inner(group: Any, name: str) -> Any:
    made = group() if isinstance(group, type) else group
    return getattr(made, name)
