"""Everything air-config raises: what happened, at which option, and what to write instead.

Each class also derives from the built-in exception that Python (and TorchAir) raises for the same
mistake, so `except ValueError` around an assignment keeps working.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = [
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


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


class ConfigError(Exception):
    """Base of every error of this package; `str()` is the whole message, with the advice in it.

    Catch it to handle every error of a configuration.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class UnknownOption(ConfigError, AttributeError, ValueError):
    """An option name that does not exist.

    Correct the name; the text has the nearest one and the names known at this place.
    """

    def __init__(self, path: str, *, nearest: str | None, known: Iterable[str], where: str = "") -> None:
        self.path = path
        self.nearest = nearest
        self.known = tuple(known)
        meant = f"; did you mean {nearest!r}?" if nearest else ""
        place = f" ({where})" if where else ""
        listing = f"\n  known here: {', '.join(self.known)}" if self.known else ""
        if not nearest and not self.known:
            listing = "\n  all      python -m air_config show --all"
        super().__init__(f"unknown option {path!r}{place}{meant}{listing}")

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (type(self), self.message, vars(self).copy())


class _BadValue(ConfigError):
    """Shared form of the errors about one value of one option."""

    problem = "is not allowed"

    def __init__(self, path: str, given: object, allowed: str, *, detail: str = "", where: str = "") -> None:
        self.path = path
        self.given = given
        self.allowed = allowed
        self.detail = detail
        self.where = where
        place = f" (from {where})" if where else ""
        more = f"\n  detail   {detail}" if detail else ""
        super().__init__(
            f"option {path!r}{place}: the value {self.problem}\n"
            f"  given    {_shown(given)} ({type(given).__name__})\n"
            f"  allowed  {allowed}{more}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (type(self), self.message, vars(self).copy())


class WrongType(_BadValue, TypeError, ValueError):
    """A value of a type the option does not take; `True` is not an int, `1` is not a bool.

    Give a value of the type that the text allows.
    """

    problem = "has the wrong type"


class WrongValue(_BadValue, ValueError):
    """A value of the right type outside what the option allows.

    Give one of the values, or a value in the range, that the text allows.
    """


class MissingPath(_BadValue, FileNotFoundError, ValueError):
    """A directory or file that must exist, and does not.

    Create the file or the directory first, or correct the path.
    """

    problem = "names a path that does not exist"

    def __str__(self) -> str:
        return self.message


class UnusablePath(_BadValue, PermissionError, ValueError):
    """A path that exists but cannot be used: not a directory, not readable, not writable.

    Give this user the right to read and write it, or choose another path.
    """

    problem = "names a path that cannot be used"

    def __str__(self) -> str:
        return self.message


class NotAGroup(ConfigError, TypeError, ValueError):
    """A value was assigned where the tree has a group of options, or a group was expected.

    Assign to the members of the group, which the text lists.
    """

    def __init__(self, path: str, given: object, options: Sequence[str]) -> None:
        self.path = path
        self.given = given
        self.options = tuple(options)
        super().__init__(
            f"{path!r} is a group of options and cannot be given {_shown(given)} ({type(given).__name__}); "
            f"set its members: {', '.join(self.options)}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (type(self), self.message, vars(self).copy())


class ConflictingOptions(ConfigError, ValueError):
    """Two names of one option were given with different values.

    Keep one of the two names.
    """

    def __init__(self, path: str, first: str, second: str) -> None:
        self.path = path
        self.names = (first, second)
        super().__init__(f"{first!r} and {second!r} both set {path!r}, to different values; keep one of them")

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (type(self), self.message, vars(self).copy())


class NotSerializable(ConfigError, TypeError):
    """A value with no written form: a callable that cannot be imported by name.

    Define the function at the top level of an importable module, or keep the configuration in the process.
    """

    def __init__(self, path: str, given: object, detail: str) -> None:
        self.path = path
        self.given = given
        self.detail = detail
        super().__init__(
            f"option {path!r}: {_shown(given)} has no written form: {detail}; "
            "define it at the top level of an importable module"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (type(self), self.message, {**vars(self), "given": repr(self.given)})


class FrozenSettings(ConfigError, AttributeError):
    """Settings were assigned to; they are the fixed result of `resolve`.

    Change the `CompilerConfig`, and resolve it again.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"settings are immutable: {path!r} cannot be assigned; "
            "change the CompilerConfig and resolve it again"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (type(self), self.message, vars(self).copy())


class RefusedOption(ConfigError, RuntimeError):
    """Options that the rules refuse in this context, all of them in one error.

    Take out each option of the list, or change what its reason names (device, chip, version of CANN).
    """

    def __init__(self, refusals: Sequence[object]) -> None:
        self.refusals = tuple(refusals)
        lines = "\n".join(f"  {refusal}" for refusal in self.refusals)
        super().__init__(f"{len(self.refusals)} option(s) refused:\n{lines}")

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (type(self), self.message, vars(self).copy())


def _remake(kind: type[ConfigError], message: str, fields: dict[str, object]) -> ConfigError:
    """Rebuild a pickled error without its constructor, whose arguments differ by class."""
    error = kind.__new__(kind, message)
    error.args = (message,)
    for name, value in fields.items():
        setattr(error, name, value)
    return error
