"""A text that is equal in every process exactly when two sets of values are, and its digest.

Callables need care. A function is identified by its module, its name, and the bytecode, constants, defaults and
captured values it runs with, so an edited pass is a different pass. An object with a `uuid()` method (as custom passes
of Inductor have) is identified by that, a frozen dataclass by its fields and its `__call__`. Any other callable
equals only itself, in this process.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import types
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["canonical_text", "digest_of"]

_PROCESS: Final = os.urandom(16).hex()
_KEPT: dict[int, tuple[object, int]] = {}
_COUNT: Final = itertools.count()


def canonical_text(values: Mapping[str, Any]) -> str:
    """One line of JSON with sorted keys; types stay apart (`1`, `1.0` and `true` differ)."""
    plain = {path: _Writer().plain(value) for path, value in values.items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(values: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical text, in hex."""
    return hashlib.sha256(canonical_text(values).encode()).hexdigest()


class _Writer:
    """Writes one value; `_open` are the objects being written, so that one inside itself ends the walk."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def plain(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if id(value) in self._open:
            return {"again": self._open.index(id(value))}
        self._open.append(id(value))
        try:
            return self._compound(value)
        finally:
            self._open.pop()

    def _compound(self, value: Any) -> Any:
        for kinds, write in self._KINDS:
            if isinstance(value, kinds):
                return write(self, value)
        return self._object(value)

    def _function(self, value: Any) -> Any:
        captured = [self._cell(cell) for cell in value.__closure__ or ()]
        parts = [value.__code__, value.__defaults__, value.__kwdefaults__]
        return {"function": [_name(value), *(self.plain(part) for part in parts), captured]}

    def _cell(self, cell: types.CellType) -> Any:
        try:
            return self.plain(cell.cell_contents)
        except ValueError:
            return {"empty": True}

    def _code(self, code: Any) -> Any:
        return {
            "code": [
                code.co_code.hex(),
                [self.plain(constant) for constant in code.co_consts],
                [code.co_names, code.co_varnames, code.co_freevars],
                [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags],
            ]
        }

    def _object(self, value: Any) -> Any:
        own = getattr(value, "uuid", None)
        if callable(own):
            return {"uuid": [_name(type(value)), self.plain(own())]}
        if _is_frozen_dataclass(value):
            fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
            return {"dataclass": [_name(type(value)), self.plain(type(value).__call__), self.plain(fields)]}
        return {"object": [_PROCESS, _identity(value)]}

    def _parts(self, *values: Any) -> list[Any]:
        return [self.plain(value) for value in values]

    def _sorted(self, values: Any) -> list[str]:
        return sorted(json.dumps(self.plain(value), sort_keys=True) for value in values)

    _KINDS: Final[tuple[tuple[Any, Callable[[_Writer, Any], Any]], ...]] = (
        ((list, tuple), lambda self, value: self._parts(*value)),
        (Mapping, lambda self, value: {"mapping": {str(k): self.plain(item) for k, item in value.items()}}),
        ((set, frozenset), lambda self, value: {"set": self._sorted(value)}),
        ((bytes, complex, type(Ellipsis)), lambda self, value: {"constant": repr(value)}),
        (
            functools.partial,
            lambda self, value: {"partial": self._parts(value.func, value.args, value.keywords)},
        ),
        (types.MethodType, lambda self, value: {"method": self._parts(value.__self__, value.__func__)}),
        (types.FunctionType, _function),
        (types.CodeType, _code),
        ((type, types.BuiltinFunctionType, types.ModuleType), lambda self, value: {"name": _name(value)}),
    )


def _is_frozen_dataclass(value: Any) -> bool:
    return bool(getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False))


def _name(value: Any) -> str:
    own = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    return f"{getattr(value, '__module__', '')}:{own}"


def _identity(value: object) -> int:
    """A number for this object, which is kept alive so that the number is never given to another one."""
    known = _KEPT.get(id(value))
    if known is None:
        known = _KEPT[id(value)] = (value, next(_COUNT))
    return known[1]
