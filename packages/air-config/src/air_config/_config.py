"""`CompilerConfig`: the tree a user edits, with its other forms: options, dict, JSON, digest."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TextIO

from air_config import errors
from air_config._canonical import canonical_text, digest_of
from air_config._context import Context
from air_config._flat import read_options, spelling
from air_config._kinds import thaw
from air_config._layers import Origin, layer
from air_config._nesting import leaves, nested
from air_config._patch import Patch, asked, assigned, patch
from air_config._presets import preset_named
from air_config._schema import json_schema
from air_config._settings import resolve
from air_config._tree import OPTIONS, Tree, at, option_at, value_at

__all__ = ["CompilerConfig"]

SET: Final = "$set"
PRESET: Final = "$preset"


class CompilerConfig(Tree):
    """What the user asks of AIR. Assign to its options; every assignment is checked.

        config = CompilerConfig()
        config.mode = "reduce-overhead"
        config.debug.run_eagerly = True

    Two configurations are equal when their values and presets are. What was assigned is remembered, even where
    it equals the default, because it goes before the environment; `del config.mode` takes it back.
    """

    __slots__ = ()

    @classmethod
    def from_options(
        cls, options: Mapping[str, Any] | CompilerConfig | None = None, *, mode: str | None = None
    ) -> CompilerConfig:
        """From the flat form of `torch.compile`: `options={...}`, or `mode=` with the name of a preset.

        Names are those of npugraph_ex, dotted paths, or dotted paths without `air.`.
        """
        if isinstance(options, CompilerConfig):
            made = options._clone()
        else:
            made = cls()
            made._assign(read_options(options or {}))
        if mode is not None:
            object.__setattr__(made, "_preset", preset_named(mode).name)
        return made

    @classmethod
    def preset(cls, name: str) -> CompilerConfig:
        """A configuration that starts from a preset instead of the defaults."""
        return cls.from_options(mode=name)

    @staticmethod
    def patch(options: Mapping[str, Any] | CompilerConfig | None = None, /, **flat: Any) -> Patch:
        """See `air_config.patch`: it acts on every configuration resolved in the context, not on one."""
        return patch(options, **flat)

    def get(self, path: str) -> Any:
        """The value at a dotted path."""
        return value_at(self, option_at(path).path)

    def set(self, path: str, value: object) -> None:
        """Assign to the option at a dotted path."""
        holder, name = at(self, option_at(path).path)
        setattr(holder, name, value)

    def set_text(self, name: str, text: str) -> None:
        """Assign from text, as the environment and the command line have it; `name` as in flat options."""
        row = spelling(name)
        value = OPTIONS[row.path].kind.take_text(row.path, text, name)
        self._assign({row.path: not value if row.inverted else value})

    def assigned(self) -> dict[str, Any]:
        """What was assigned, by dotted path: also the flat form that `from_options` takes."""
        return assigned(self)

    def asked(self) -> dict[str, Any]:
        """What was assigned, over the values of the preset: what another configuration takes over from this one."""
        return asked(self)

    def to_dict(self, *, only_set: bool = False) -> dict[str, Any]:
        """Nested dicts of every value, or with `only_set` of what was assigned.

        The complete form names in "$set" what was assigned, so that nothing is lost on the way back.
        Callables stay as they are.
        """
        return self._nested(only_set, lambda path, value: thaw(value))

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> CompilerConfig:
        """The configuration a dict describes; it may be partial. Without "$set", all of it counts as assigned.

        With "$set", values that are not listed there count as assigned only where they differ from the
        defaults, as they do after a change by hand.
        """
        if not isinstance(tree, Mapping):
            raise errors.WrongType("the configuration", tree, "a dict nested like the tree")
        given = dict(tree)
        listed, preset = given.pop(SET, None), given.pop(PRESET, None)
        made = cls()
        values = {path: OPTIONS[path].kind.take(path, _loaded(path, value)) for path, value in leaves(given)}
        if listed is not None:
            known = {option_at(path).path for path in _strings(listed)}
            values = {path: each for path, each in values.items() if path in known or _changed(path, each)}
        made._assign(values)
        if preset is not None:
            object.__setattr__(made, "_preset", preset_named(preset).name)
        return made

    def to_json(self, *, only_set: bool = False, indent: int | None = 2) -> str:
        """The dict as JSON. Callables are written as "package.module:name"."""
        return json.dumps(self._nested(only_set, _written), indent=indent, allow_nan=False)

    def _nested(self, only_set: bool, written: Callable[[str, Any], Any]) -> dict[str, Any]:
        given = assigned(self)
        values = given if only_set else self._by_path()
        head: dict[str, Any] = {} if only_set else {SET: list(given)}
        if self._preset is not None:
            head[PRESET] = self._preset
        return {**head, **nested({path: written(path, value) for path, value in values.items()})}

    @classmethod
    def from_json(cls, text: str) -> CompilerConfig:
        """The configuration a JSON text describes."""
        if not isinstance(text, (str, bytes, bytearray)):
            raise errors.WrongType("the configuration", text, "JSON as text")
        try:
            tree = json.loads(text, object_pairs_hook=_without_repeats)
        except (ValueError, RecursionError) as error:
            raise errors.WrongValue("the configuration", text, "JSON", detail=str(error)) from None
        return cls.from_dict(tree)

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """A JSON Schema (draft 2020-12) of the form `to_json` writes."""
        return json_schema()

    @property
    def digest(self) -> str:
        """SHA-256 of the values and the preset: equal in every process exactly when configurations are."""
        return digest_of(self._identity())

    def origin(self, path: str, context: Context | None = None) -> Origin:
        """The layer that decides an option: default, preset, environment, patch or explicit."""
        env = (context or Context()).env
        return layer(self, env).origins[option_at(path).path]

    def layered(self, path: str, context: Context | None = None) -> Any:
        """The value that the layers give an option, before the rules: for what acts before a graph is resolved.

        `get` and the option itself give what was assigned, or the default.
        """
        env = (context or Context()).env
        return layer(self, env).values[option_at(path).path]

    def table(self, context: Context | None = None, *, everything: bool = True) -> str:
        """What the configuration comes to in a context, as text: values, origins, notices."""
        return resolve(self, context).table(everything=everything)

    def show(
        self, context: Context | None = None, *, everything: bool = True, file: TextIO | None = None
    ) -> None:
        """Print the table."""
        (file or sys.stdout).write(self.table(context, everything=everything))

    def _identity(self) -> dict[str, Any]:
        return {**self._by_path(), PRESET: self._preset}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompilerConfig):
            return NotImplemented
        return canonical_text(self._identity()) == canonical_text(other._identity())

    def __repr__(self) -> str:
        values = [f"{row.path}={value!r}" for row, value in self._leaves() if value != row.default]
        preset = [] if self._preset is None else [f"preset={self._preset!r}"]
        return f"{type(self).__name__}({', '.join([*preset, *values])})"

    def __hash__(self) -> int:
        raise TypeError("unhashable: a CompilerConfig can change; use its digest")

    def _assign(self, values: Mapping[str, Any]) -> None:
        """Store values that have been checked."""
        for path, value in values.items():
            holder, name = at(self, path)
            object.__setattr__(holder, name, value)
            holder._asked.add(name)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, of which Python would keep the last of two values without a word."""
    made = dict(pairs)
    twice = sorted(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
    if twice:
        raise ValueError(f"{', '.join(map(repr, twice))} stands twice in one object; keep one of them")
    return made


def _loaded(path: str, value: Any) -> Any:
    kind = OPTIONS[path].kind
    try:
        return kind.load(value)
    except ValueError as error:
        raise errors.WrongValue(path, value, kind.allowed, detail=str(error)) from None


def _written(path: str, value: Any) -> Any:
    try:
        return OPTIONS[path].kind.write(value)
    except ValueError as error:
        raise errors.NotSerializable(path, value, str(error)) from None


def _changed(path: str, value: Any) -> bool:
    default = OPTIONS[path].default
    return type(value) is not type(default) or value != default


def _strings(listed: Any) -> Iterable[str]:
    if not isinstance(listed, (list, tuple)) or any(not isinstance(each, str) for each in listed):
        raise errors.WrongType(SET, listed, "a list of option paths")
    return listed
