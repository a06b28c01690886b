"""Where a value comes from: presets < environment < `patch` < what the user assigned.

The tree holds only what was assigned. This module lays the other layers under it, remembers for every option
which layer won, and reports what was set and lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from typing import Any, Final, Literal

import attrs

from air_config._flat import read_options
from air_config._notice import Notice
from air_config._option import nearest
from air_config._presets import PRESETS, preset_named
from air_config._tree import OPTIONS, Tree

__all__ = ["Layered", "Origin", "layer", "patch"]

RESERVED_PREFIXES: Final = ("AIR_SIM_", "AIR_NATIVE_", "AIR_TORCH_")
"""Variables of this form are read by the simulator, by native parts and by the build; they are no options."""
_VARIABLES: Final = {row.environment_name: path for path, row in OPTIONS.items()}
_PATCHES: ContextVar[tuple[Mapping[str, Any], ...]] = ContextVar("air_config_patches", default=())


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


class Patch(ContextDecorator):
    """What `patch` returns: `with` it, or put it on a function."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._tokens: list[Token[tuple[Mapping[str, Any], ...]]] = []

    def _recreate_cm(self) -> Patch:
        """Each call of a decorated function enters a patch of its own: calls may overlap."""
        return Patch(self._values)

    def __enter__(self) -> None:
        self._tokens.append(_PATCHES.set((*_PATCHES.get(), self._values)))

    def __exit__(self, *raised: object) -> None:
        _PATCHES.reset(self._tokens.pop())


def patch(options: Mapping[str, Any] | None = None, /, **flat: Any) -> Patch:
    """Set options for every configuration resolved in this context (thread, task); also a decorator.

    Takes what `CompilerConfig.from_options` takes. Goes before the environment and after what a
    configuration sets itself. Patches nest; the innermost wins.
    """
    return Patch(read_options({**(options or {}), **flat}))


def layer(config: Tree, env: Mapping[str, str]) -> Layered:
    """Lay presets, environment and patches under what `config` was assigned."""
    made = Layered({path: row.default for path, row in OPTIONS.items()}, dict.fromkeys(OPTIONS, DEFAULT))
    if config._preset is not None:
        for path, value in preset_named(config._preset).values.items():
            made.put(path, value, Origin("preset", config._preset))
    _put_environment(made, env)
    for patched in _PATCHES.get():
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


def assigned(config: Tree) -> dict[str, Any]:
    """What was assigned to a configuration, by path, in order of declaration."""
    return {row.path: value for row, value in config._leaves(asked=True)}
