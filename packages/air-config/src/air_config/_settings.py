"""`resolve`: the settings that a configuration gives in a context. They are immutable and explain themselves."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Final, TextIO

from air_config import errors
from air_config._canonical import digest_of
from air_config._context import Context
from air_config._kinds import thaw
from air_config._layers import Origin, layer
from air_config._nesting import nested
from air_config._notice import Notice
from air_config._rulebook import RULES
from air_config._rules import apply
from air_config._table import table
from air_config._tree import Tree, at, option_at

__all__ = ["Settings", "resolve"]

log = logging.getLogger(__name__)
_LOGGED: Final[dict[str, None]] = {}
_LOGGED_LIMIT: Final = 1000


class Settings(Tree):
    """The effective values, at the paths of the tree; immutable. Made by `resolve`."""

    __slots__ = ("_origins", "_quiet", "digest", "notices")

    _EXTRA: ClassVar[tuple[str, ...]] = ("_preset", "_origins", "_quiet", "digest", "notices")
    notices: tuple[Notice, ...]
    """What did not come through as it was set, and why."""
    digest: str
    """SHA-256 of the values: equal in every process exactly when they are; for cache keys."""
    _origins: Mapping[str, Origin]
    _quiet: Mapping[str, str]

    @property
    def refusals(self) -> tuple[Notice, ...]:
        """The notices of options that cannot be had here."""
        return tuple(notice for notice in self.notices if notice.effect == "refused")

    def check(self) -> Settings:
        """These settings, or a `RefusedOption` that lists everything refused."""
        if self.refusals:
            raise errors.RefusedOption(self.refusals)
        return self

    def origin(self, path: str) -> Origin:
        """The layer an option was set in, before the rules had their say."""
        return self._origins[option_at(path).path]

    def to_dict(self) -> dict[str, Any]:
        """All values as nested dicts with lists and dicts inside; callables stay as they are."""
        return nested({path: thaw(value) for path, value in self._by_path().items()})

    def table(self, *, everything: bool = True) -> str:
        """Values, origins and notices as text; without `everything`, only what differs from the defaults."""
        return table(self._by_path(), self._origins, self.notices, self._quiet, everything=everything)

    def show(self, *, everything: bool = True, file: TextIO | None = None) -> None:
        """Print the table."""
        (file or sys.stdout).write(self.table(everything=everything))

    def _clone(self) -> Settings:
        return self

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Settings) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        changed = [f"{row.path}={value!r}" for row, value in self._leaves() if value != row.default]
        return f"Settings({', '.join(changed)}; {len(self.notices)} notices)"


def resolve(config: Tree | None = None, context: Context | None = None) -> Settings:
    """What `config` comes to in `context`: the layers laid over each other, then the rules.

    Nothing is raised for a refused option: it is put out of action and reported, and `Settings.check` raises.
    Wrong values in the environment raise here, as they do on assignment.
    """
    config = Tree() if config is None else config
    context = Context() if context is None else context
    if isinstance(config, Settings):
        raise errors.WrongType("config", config, "a CompilerConfig; these settings are resolved already")
    if not isinstance(config, Tree):
        raise errors.WrongType(
            "config", config, "a CompilerConfig; CompilerConfig.from_options makes one of a dict"
        )
    if not isinstance(context, Context):
        raise errors.WrongType("context", context, "an air_config.Context")
    layered = layer(config, context.env)
    notices = (*layered.notices, *apply(RULES, layered, context))
    settings = Settings()
    for path, value in layered.values.items():
        holder, name = at(settings, path)
        object.__setattr__(holder, name, value)
    extra = {
        "_preset": config._preset,
        "_origins": dict(layered.origins),
        "_quiet": dict(layered.quiet),
        "digest": digest_of(layered.values),
        "notices": notices,
    }
    for name, value in extra.items():
        object.__setattr__(settings, name, value)
    settings._freeze()
    for notice in notices:
        _log(notice)
    return settings


def _log(notice: Notice) -> None:
    """Log a notice; as a warning when it is about something asked for, and only once in a process."""
    text = str(notice)
    level = logging.DEBUG if text in _LOGGED else logging.WARNING if notice.asked else logging.INFO
    _LOGGED[text] = None
    if len(_LOGGED) > _LOGGED_LIMIT:  # notices quote values, which may be others each time
        _LOGGED.pop(next(iter(_LOGGED)), None)
    log.log(level, "%s", text)
