"""Presets: named sets of values under everything the user says. Each mode is one; so is every `mode=` of
`torch.compile(backend="air", mode=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from air_config import errors
from air_config._option import nearest

__all__ = ["PRESETS", "Preset", "preset_named"]


@attrs.frozen
class Preset:
    """One row: a name, what it is for, and the values that differ from the defaults."""

    name: str
    text: str
    values: Mapping[str, Any]


_ROWS: Final = (
    Preset("default", "The defaults of the tree.", {}),
    Preset("max-autotune", "Ascend IR.", {"mode": "max-autotune"}),
    Preset("reduce-overhead", "aclgraph.", {"mode": "reduce-overhead"}),
    Preset(
        "npugraph_ex",
        "aclgraph as the backend of that name sets it: in-place rewrites stay on where the order of the "
        "streams allows them.",
        {"mode": "npugraph_ex", "air.reinplace_with_streams": "ordering"},
    ),
    Preset(
        "checked",
        "aclgraph with every check on: passes proven, races are errors, stale outputs raise.",
        {"mode": "reduce-overhead", "air.verify": True, "air.sync": "error", "air.outputs": "guarded"},
    ),
)

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType({row.name: row for row in _ROWS})


def preset_named(name: object) -> Preset:
    """The preset of that name, or the error that lists them."""
    found = PRESETS.get(name) if isinstance(name, str) else None
    if found is None:
        allowed = ", ".join(PRESETS)
        close = nearest(name, tuple(PRESETS)) if isinstance(name, str) else None
        detail = f"did you mean {close!r}?" if close else ""
        raise errors.WrongValue("mode", name, f"one of the presets {allowed}", detail=detail, where="preset")
    return found
