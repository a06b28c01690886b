"""Kinds of values: what an option takes, for the validator, the reader and the JSON schema.

A kind is one frozen row. Its `validator` is built from `attrs.validators`; `take` runs it and turns what
it raises into an error that carries the option's path and what is allowed. The other fields say the same
thing to other readers: `allowed` to a person, `schema` to JSON Schema, `read` to an environment variable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypeVar, cast, get_args, get_origin

import attrs
from attrs import validators as v

from air_config import errors

__all__ = [
    "Kind",
    "Validator",
    "boolean",
    "choice",
    "exactly",
    "freeze",
    "integer",
    "integers",
    "kind_of",
    "optional",
    "options_of",
    "pool_handle",
    "seconds",
    "text",
    "texts",
    "thaw",
]

T = TypeVar("T")
Validator = Callable[[Any, Any, Any], object]
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


def _same(value: Any) -> Any:
    return value


def thaw(value: Any) -> Any:
    """Undoes `freeze`: lists and dicts again, as JSON has them."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [thaw(item) for item in value]
    return value


class Frozen(Mapping[str, Any]):
    """A read-only dict that pickles: what the tree keeps of a dict, so that nothing changes unchecked."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


def freeze(value: Any) -> Any:
    """The stored form of a value: sequences as tuples, mappings read-only, all the way down."""
    if isinstance(value, Mapping):
        return Frozen({key: freeze(item) for key, item in value.items()})
    if isinstance(value, (tuple, list)):
        return tuple(freeze(item) for item in value)
    return value


def unread(text: str) -> Any:
    raise ValueError("this option cannot be given as text")


@attrs.frozen(eq=False)
class Kind(Generic[T]):
    """One kind of value.

    `store` gives the form kept in the tree, `write` the JSON form of that, `load` undoes `write`.
    """

    name: str
    allowed: str
    validator: Validator
    schema: Mapping[str, Any]
    read: Callable[[str], Any] = unread
    store: Callable[[Any], Any] = _same
    write: Callable[[Any], Any] = thaw
    load: Callable[[Any], Any] = _same
    choices: tuple[Any, ...] = ()

    def take(self, path: str, value: object, attribute: Any = None, where: str = "") -> T:
        """The stored form of `value`, or the error that says why the option does not take it."""
        try:
            self.validator(None, attribute or _ANONYMOUS, value)
        except FileNotFoundError as error:
            raise errors.MissingPath(path, value, self.allowed, detail=str(error), where=where) from None
        except OSError as error:
            raise errors.UnusablePath(path, value, self.allowed, detail=str(error), where=where) from None
        except TypeError as error:
            raise errors.WrongType(path, value, self.allowed, detail=_detail(error), where=where) from None
        except ValueError as error:
            raise errors.WrongValue(path, value, self.allowed, detail=_detail(error), where=where) from None
        return cast("T", self.store(value))

    def take_text(self, path: str, text: str, where: str) -> T:
        """The stored form of a value written as text, for instance in the environment."""
        try:
            value = self.read(text)
        except ValueError as error:
            raise errors.WrongValue(path, text, self.allowed, detail=str(error), where=where) from None
        return self.take(path, value, where=where)


@attrs.frozen
class _Anonymous:
    """Stands for the attribute when a value is checked outside the tree."""

    name: str = "value"


_ANONYMOUS: Final = _Anonymous()


def _detail(error: Exception) -> str:
    """Our own one-line details; the texts of attrs repeat what `allowed` says."""
    return str(error.args[0]) if len(error.args) == 1 else ""


def exactly(kind: type) -> Validator:
    """`instance_of`, but without subclasses: bool is an int to Python and a mistake to us."""

    def check(instance: Any, attribute: Any, value: Any) -> None:
        if type(value) is not kind:
            raise TypeError(None, value)

    return check


_TRUE: Final = frozenset({"1", "true", "on", "yes"})
_FALSE: Final = frozenset({"0", "false", "off", "no"})


def _read_bool(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError("write 1 or 0, true or false, on or off, yes or no")


def _read_int(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        raise ValueError("write a decimal integer")
    return int(text)


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("write a number") from None


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"write JSON: {error}") from None


def boolean() -> Kind[bool]:
    """`True` or `False`, nothing that merely converts to them."""
    return Kind("bool", "True or False", exactly(bool), {"type": "boolean"}, _read_bool)


YEAR_S: Final = 366 * 24 * 3600


def integer(low: int, high: int = INT64_MAX, *, also: Sequence[int] = ()) -> Kind[int]:
    """An int between two bounds, both included, or one of a few special values."""
    span = f"an int from {low} up" if high == INT64_MAX else f"an int from {low} to {high}"
    ranged: Validator = v.and_(v.ge(low), v.le(high))
    allowed, check, schema = span, ranged, {"type": "integer", "minimum": low, "maximum": high}
    if also:
        allowed = f"{span}, or {', '.join(map(str, also))}"
        check = _unless(also, ranged)
        schema = {"type": "integer", "anyOf": [{"enum": list(also)}, {"minimum": low, "maximum": high}]}
    return Kind("int", allowed, v.and_(exactly(int), check), schema, _read_int)


def _unless(also: Sequence[int], ranged: Validator) -> Validator:
    """Lets the special values pass; `v.or_` would answer with the code of the validators."""

    def check(instance: Any, attribute: Any, value: Any) -> None:
        if value not in also:
            ranged(instance, attribute, value)

    return check


def seconds(low: float = 0.0) -> Kind[float]:
    """A duration in seconds, int or float, up to a year: what is beyond it no clock of the system takes."""

    def finite(instance: Any, attribute: Any, value: Any) -> None:
        if type(value) not in (int, float):
            raise TypeError(None, value)
        if not low < value <= YEAR_S:
            raise ValueError(None, value)

    schema = {"type": "number", "exclusiveMinimum": low, "maximum": YEAR_S}
    return Kind(
        "float",
        f"a number of seconds above {low:g}, up to {YEAR_S} (a year)",
        finite,
        schema,
        _read_float,
        store=float,
    )


def choice(*values: str) -> Kind[Any]:
    """One of a few words."""
    allowed = " or ".join(f'"{value}"' for value in values)
    check = v.and_(exactly(str), v.in_(values))
    return Kind("str", allowed, check, {"enum": list(values)}, str.strip, choices=values)


def text(pattern: str | None = None, *, like: str = "") -> Kind[str]:
    """Any string, or one that matches a pattern as a whole."""
    if pattern is None:
        return Kind("str", "a string", exactly(str), {"type": "string"}, str)
    check = v.and_(exactly(str), v.matches_re(pattern))
    schema = {"type": "string", "pattern": f"^(?:{pattern})$"}
    return Kind("str", f'a string like "{like}"', check, schema, str)


def file_name() -> Kind[str]:
    """A name that a file can have, without a folder."""
    check = v.and_(exactly(str), v.matches_re(r"[^/\0]{1,200}"))
    return Kind(
        "str",
        "a file name without a folder",
        check,
        {"type": "string", "pattern": r"^[^/\u0000]{1,200}$"},
        str,
    )


def integers(low: int, *, least: int = 0) -> Kind[Sequence[int]]:
    """A list or tuple of ints, each at least `low`."""
    member = integer(low)
    check = v.deep_iterable(member.validator, v.and_(v.instance_of((list, tuple)), v.min_len(least)))
    schema = {"type": "array", "items": dict(member.schema), "minItems": least}
    return Kind("list[int]", f"a list of ints from {low} up", check, schema, _read_json, store=freeze)


def texts() -> Kind[Sequence[str]]:
    """A list or tuple of non-empty strings; as text, separated by commas."""
    member = v.and_(exactly(str), v.min_len(1))
    check = v.deep_iterable(member, v.instance_of((list, tuple)))
    schema = {"type": "array", "items": {"type": "string", "minLength": 1}}

    def read(text: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]

    return Kind("list[str]", "a list of strings", check, schema, read, store=freeze)


def pool_handle() -> Kind[tuple[int, int]]:
    """A graph memory pool handle of a torch device module: two ints, one of them 0."""

    def check(instance: Any, attribute: Any, value: Any) -> None:
        if type(value) not in (tuple, list):
            raise TypeError(None, value)
        if len(value) != 2 or any(type(part) is not int or part < 0 for part in value) or all(value):
            raise ValueError("a handle is two non-negative ints, at least one of which is 0")

    item = {"type": "integer", "minimum": 0}
    schema = {"type": "array", "prefixItems": [item, item], "minItems": 2, "maxItems": 2}
    allowed = "the tuple that graph_pool_handle() of the device module returns"
    return Kind("pool", allowed, check, schema, _read_json, store=freeze)


_JSON_TYPES: Final[Mapping[type, str]] = {int: "integer", str: "string", list: "array", dict: "object"}
_STORED_AS: Final[Mapping[type, Any]] = {list: (list, tuple), dict: Mapping}
"""What also counts as a list or dict: the stored form of one."""


def options_of(members: Mapping[str, type]) -> Kind[Mapping[str, Any]]:
    """A mapping with known keys only, each with a value of a known type."""

    def check(instance: Any, attribute: Any, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise TypeError(None, value)
        for key, item in value.items():
            if key not in members:
                raise ValueError(f"unknown key {key!r}")
            if not isinstance(item, _STORED_AS.get(members[key], members[key])) or isinstance(item, bool):
                raise TypeError(f"the value of {key!r} has the wrong type: {item!r}")

    properties = {key: {"type": _JSON_TYPES[kind]} for key, kind in members.items()}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    allowed = "a dict with keys among " + ", ".join(members)
    return Kind("dict", allowed, check, schema, _read_json, store=freeze)


def optional(kind: Kind[T]) -> Kind[T | None]:
    """The same, or `None` for "not given"."""

    def unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: None if value is None else convert(value)

    def read(text: str) -> Any:
        return None if text.strip().lower() in ("", "none", "null") else kind.read(text)

    return Kind(
        f"{kind.name} or None",
        f"{kind.allowed}, or None",
        v.optional(kind.validator),
        {"anyOf": [dict(kind.schema), {"type": "null"}]},
        read,
        unless_none(kind.store),
        unless_none(kind.write),
        unless_none(kind.load),
        choices=(*kind.choices, None) if kind.choices else (),
    )


def kind_of(annotation: Any, kind: Kind[Any] | None = None) -> Kind[Any]:
    """The kind of a field, as its annotation says it: `bool`, words, or either of them or None.

    Where the annotation does not say all of it, `kind` does; whether None is allowed stands in the annotation alone.
    """
    members = get_args(annotation)
    if type(None) in members:
        (inner,) = (member for member in members if member is not type(None))
        return optional(kind_of(inner, kind))
    if kind is not None:
        return kind
    if get_origin(annotation) is Literal:
        return choice(*members)
    if annotation is bool:
        return boolean()
    raise TypeError(f"{annotation} does not say which values are allowed: give the option a kind")
