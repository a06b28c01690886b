"""Conditions on one key of a dictionary, or one member of a set: `"numpy" in sys.modules`.

Dynamo has a condition on the key alone. All keys would be too much: those of `sys.modules` are others in each process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from air_backend.inference._groups import name_of_group

_ABOUT_A_KEY: Final = frozenset({"DICT_CONTAINS", "DICT_NOT_CONTAINS", "SET_CONTAINS", "SET_NOT_CONTAINS"})
#: Whose text is an expression.
_WRITABLE: Final = (bool, int, str, bytes, type(None))


def question(guard: Any) -> str | None:
    """The condition as an expression; None for one of another kind, or on a key that no text can hold."""
    asked = getattr(guard.orig_guard.create_fn, "keywords", {})
    if guard.guard_type not in _ABOUT_A_KEY or type(asked.get("key", guard)) not in _WRITABLE:
        return None
    return f"{asked['key']!r} in {guard.name}"


def with_questions(guards: Iterable[Any]) -> list[str]:
    """The expressions that conditions are about, and those about their keys and the names of their groups."""
    asked = ((guard.name, question(guard), name_of_group(guard)) for guard in guards)
    return [name for names in asked for name in names if name is not None]
