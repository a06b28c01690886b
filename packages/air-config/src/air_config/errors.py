"""The root of every error of AIR, and what air-config raises: what happened, at which option, what to write instead.

A class that a built-in exception fits derives from it as well, so `except ValueError` around an assignment keeps
working.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "AirError",
    "ConfigError",
    "ConflictingOptions",
    "FrozenSettings",
    "MissingPath",
    "NotAGroup",
    "NotSerializable",
    "RefusedOption",
    "UnknownOption",
    "UnusablePath",
    "WrongType",
    "WrongValue",
]


class AirError(Exception):
    """Root of the errors of every package of AIR: `what` happened, `where`, and the `advice` what to do about it.

    Catch it to handle every error that AIR raises on purpose.

    A class whose text is always the same is a dataclass of its facts, and gives `what` and `advice` as templates:
    `what = "{path} cannot be read: {reason}"`.
    """

    what: str = ""
    where: object = None
    advice: str = ""

    def __init__(self, what: str = "", *, where: object = None, advice: str = "") -> None:
        self.where = where
        vars(self).update({part: text for part, text in (("what", what), ("advice", advice)) if text})
        self.__post_init__()

    def __post_init__(self) -> None:
        facts = {name: _listed(value) for name, value in vars(self).items()}
        for part in ("what", "advice"):
            if part not in facts:  # the template of the class
                setattr(self, part, getattr(type(self), part).format_map(facts))
        super().__init__(str(self))

    def details(self) -> Iterable[tuple[str, object]]:
        """More lines of the message: a word and what it says; a line that says nothing is left out."""
        return ()

    def __str__(self) -> str:
        lines = [("at", self.where), *self.details(), ("advice", self.advice)]
        said = [(name, text) for name, text in lines if text not in (None, "")]
        width = max((len(name) for name, _ in said), default=0)
        return "\n".join([self.what, *(f"  {name:<{width}}  {text}" for name, text in said)])

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuilt without the constructor, whose arguments differ by class."""
        return _remade, (type(self), vars(self).copy())


def _remade(kind: type[AirError], facts: dict[str, object]) -> AirError:
    error = kind.__new__(kind)
    vars(error).update(facts)
    error.args = (str(error),)
    return error


def _listed(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


class ConfigError(AirError):
    """Base of the errors of air-config.

    Catch it to handle every error of a configuration.
    """


class UnknownOption(ConfigError, AttributeError, ValueError):
    """An option name that does not exist.

    Correct the name; the message has the nearest one and the names known at this place.
    """

    def __init__(
        self, path: str, *, nearest: str | None, known: Iterable[str], where: str = "", group: bool = False
    ) -> None:
        self.path = path
        self.nearest = nearest
        self.known = tuple(known)
        meant = f"; did you mean {nearest!r}?" if nearest else ""
        what = (
            f"{path!r} is a group of options, and no option" if group else f"unknown option {path!r}{meant}"
        )
        super().__init__(what, where=where)

    def details(self) -> Iterable[tuple[str, object]]:
        yield "known here", ", ".join(self.known)
        if not self.nearest and not self.known:
            yield "all", "python -m air_config show --all"


@dataclass(eq=False)
class _BadValue(ConfigError):
    """Shared form of the errors about one value of one option."""

    path: str
    given: object
    allowed: str
    detail: str = ""
    where: str = ""

    def details(self) -> Iterable[tuple[str, object]]:
        yield "given", f"{_shown(self.given)} ({type(self.given).__name__})"
        yield "allowed", self.allowed
        yield "detail", self.detail


class WrongType(_BadValue, TypeError, ValueError):
    """A value has a type that the option does not take; `True` is not an int, `1` is not a bool.

    Give a value of the type that the message allows.
    """

    what = "option {path!r}: the value has the wrong type"


class WrongValue(_BadValue, ValueError):
    """A value has the right type, but the option does not allow it.

    Give one of the values, or a value in the range, that the message allows.
    """

    what = "option {path!r}: the value is not allowed"


class MissingPath(_BadValue, FileNotFoundError, ValueError):
    """A directory or file must exist, and does not.

    Create the file or the directory first, or correct the path.
    """

    what = "option {path!r}: the value names a path that does not exist"


class UnusablePath(_BadValue, PermissionError, ValueError):
    """A path exists but cannot be used: not a directory, not readable, or not writable.

    Give this user the right to read and write it, or choose another path.
    """

    what = "option {path!r}: the value names a path that cannot be used"


class NotAGroup(ConfigError, TypeError, ValueError):
    """A value was assigned where the tree has a group of options, or a group was expected.

    Assign to the members of the group, which the message lists.
    """

    def __init__(self, path: str, given: object, options: Sequence[str]) -> None:
        self.path = path
        self.given = given
        self.options = tuple(options)
        super().__init__(
            f"{path!r} is a group of options and cannot be given {_shown(given)} ({type(given).__name__})",
            advice=f"set its members: {', '.join(self.options)}",
        )


@dataclass(eq=False)
class ConflictingOptions(ConfigError, ValueError):
    """Two names of one option were given with different values.

    Keep one of the two names.
    """

    path: str
    first: str
    second: str
    what = "{first!r} and {second!r} both set {path!r}, to different values"
    advice = "keep one of them"


@dataclass(eq=False)
class NotSerializable(ConfigError, TypeError):
    """A value cannot be written down: a callable that cannot be imported by name.

    Define the function at the top level of an importable module, or keep the configuration in the process.
    """

    path: str
    given: object
    detail: str
    what = "option {path!r}: {given!r:.120} has no written form: {detail}"
    advice = "define it at the top level of an importable module"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), {**vars(self), "given": repr(self.given)})


@dataclass(eq=False)
class FrozenSettings(ConfigError, AttributeError):
    """Settings were assigned to; they are the fixed result of `resolve`.

    Change the `CompilerConfig`, and resolve it again.
    """

    path: str
    what = "settings are immutable: {path!r} cannot be assigned"
    advice = "change the CompilerConfig and resolve it again"


class RefusedOption(ConfigError, RuntimeError):
    """The rules refuse options in this context; one error lists all of them.

    Remove each option in the list, or change what its reason names (device, chip, version of CANN).
    """

    def __init__(self, refusals: Sequence[object]) -> None:
        self.refusals = tuple(refusals)
        lines = "\n".join(f"  {refusal}" for refusal in self.refusals)
        super().__init__(
            f"{len(self.refusals)} option(s) refused:\n{lines}",
            advice="remove each of them, or change what its reason names",
        )
