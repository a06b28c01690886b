"""Where prototypes are found: the family tables, then what users registered."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from air_geir.errors import PrototypeError, UnknownOperatorError
from air_geir.prototypes._prototype import Prototype, parse
from air_geir.prototypes.families import FAMILIES

_rows: dict[str, str] = {}
_families: dict[str, str] = {}
_parsed: dict[str, Prototype] = {}

for _family, _table in FAMILIES.items():
    for _row in _table.strip().replace("\n    ", " ").splitlines():
        _name = _row.partition("(")[0]
        if _name in _rows:
            raise PrototypeError(f"{_name} stands in two tables: {_families[_name]} and {_family}")
        _rows[_name] = _row
        _families[_name] = _family


def find(op_type: str) -> Prototype | None:
    """The prototype of this operator type, None when nobody described it."""
    known = _parsed.get(op_type)
    if known is None and op_type in _rows:
        known = _parsed[op_type] = parse(_rows[op_type])
    return known


def get(op_type: str) -> Prototype:
    """The prototype of this operator type, or an error naming the nearest ones."""
    known = find(op_type)
    if known is None:
        near = difflib.get_close_matches(op_type, all_types(), 3, 0.6)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise UnknownOperatorError(
            f"no prototype is known for operator type {op_type!r}",
            advice=f"{hint}describe your own with air_geir.prototypes.register('{op_type}(x) -> y')",
        )
    return known


def register(prototype: str | Prototype) -> Prototype:
    """Add a prototype, given as a row or as an object. Saying the same again is fine; contradicting is refused."""
    new = parse(prototype) if isinstance(prototype, str) else prototype
    old = find(new.op_type)
    if old is not None and old != new:
        raise PrototypeError(
            f"{new.op_type} is already described differently: {old}",
            where=str(new),
            advice="describe it the same way, or give your operator another type",
        )
    _parsed[new.op_type] = new
    return new


def family(op_type: str) -> str | None:
    """The family table that holds this operator type, None for a registered or unknown one."""
    return _families.get(op_type)


def all_types() -> Iterator[str]:
    """Every operator type that has a prototype."""
    yield from _rows
    yield from (name for name in _parsed if name not in _rows)
