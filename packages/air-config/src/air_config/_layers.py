"""Where a value comes from: presets < environment < `patch` < what the user assigned.

The tree holds only what was assigned. This module lays the other layers under it, remembers for every option
which layer won, and reports what was set and lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from air_config._notice import Notice
from air_config._option import nearest
from air_config._patch import active_patches, assigned
from air_config._presets import PRESETS, preset_named
from air_config._tree import OPTIONS, Tree

__all__ = ["Layered", "Origin", "layer"]

RESERVED_PREFIXES: Final = ("AIR_SIM_", "AIR_NATIVE_", "AIR_TORCH_")
"""Variables of this form are read by the simulator, by native parts and by the build; they are no options."""
_VARIABLES: Final = {row.environment_name: path for path, row in OPTIONS.items()}


@attrs.frozen
class Origin:
    """The layer a value comes from, and the name it has there."""

    layer: Literal["default", "preset", "environment", "patch", "explicit"]
    name: str = ""

    def __str__(self) -> str:
        return f"{self.layer} {self.name}".strip()

    @property
    def asked(self) -> bool:
        """Whether the value was asked for, and does not come from a default or a preset."""
        return self.layer in ("environment", "patch", "explicit")


DEFAULT: Final = Origin("default")
EXPLICIT: Final = Origin("explicit")
PATCHED: Final = Origin("patch")


@attrs.define
class Layered:
    """Effective values and their origins, and what was set in a lower layer and lost."""

    values: dict[str, Any]
    origins: dict[str, Origin]
    notices: list[Notice] = attrs.Factory(list)
    quiet: dict[str, str] = attrs.Factory(dict)
    """Options that were not asked for and that a rule put out of action, and the rule."""

    def put(self, path: str, value: Any, origin: Origin) -> None:
        """Let a layer set an option; an asked-for value that loses to another one is reported."""
        before, old = self.values[path], self.origins[path]
        if old.asked and old != origin and before != value:
            reason = f"{origin} goes before {old}"
            lost = before, value, str(old), True
            self.notices.append(Notice(path, "overridden", "precedence", PRECEDENCE_SOURCE, reason, *lost))
        self.values[path], self.origins[path] = value, origin


PRECEDENCE_SOURCE: Final = "air-config: precedence"


def layer(config: Tree, env: Mapping[str, str]) -> Layered:
    """Lay presets, environment and patches under what `config` was assigned."""
    made = Layered({path: row.default for path, row in OPTIONS.items()}, dict.fromkeys(OPTIONS, DEFAULT))
    if config._preset is not None:
        for path, value in preset_named(config._preset).values.items():
            made.put(path, value, Origin("preset", config._preset))
    _put_environment(made, env)
    for patched in active_patches():
        for path, value in patched.items():
            made.put(path, value, PATCHED)
    for path, value in assigned(config).items():
        made.put(path, value, EXPLICIT)
    for path, value in PRESETS[made.values["mode"]].values.items():
        if made.origins[path] == DEFAULT:
            made.put(path, value, Origin("preset", made.values["mode"]))
    return made


def _put_environment(made: Layered, env: Mapping[str, str]) -> None:
    for name in sorted(env):
        if not name.startswith("AIR_") or name.startswith(RESERVED_PREFIXES):
            continue
        path = _VARIABLES.get(name)
        if path is None:
            close = nearest(name, tuple(_VARIABLES))
            reason = "no option has this variable" + (f"; did you mean {close}?" if close else "")
            given = env[name], None, name, True
            made.notices.append(
                Notice(name, "ignored", "unknown-variable", PRECEDENCE_SOURCE, reason, *given)
            )
            continue
        value = OPTIONS[path].kind.take_text(path, env[name], f"environment variable {name}")
        made.put(path, value, Origin("environment", name))
