"""The kind of a value that can be called, and how a callable is written down as text."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from attrs import validators as v

from air_config._kinds import Kind, Validator

__all__ = ["function", "import_callable", "name_of_callable"]


def import_callable(name: str) -> Any:
    """The object that "package.module:name" names."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise ValueError("write package.module:function")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from None
    return found


def name_of_callable(value: Any) -> str:
    """The "package.module:name" that imports `value`, or a ValueError that says why there is none."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise ValueError("it is an object without an importable name")
    if "<" in name or module == "__main__":
        raise ValueError("it is a local function, a lambda, or lives in __main__")
    text = f"{module}:{name}"
    if import_callable(text) is not value:
        raise ValueError(f"{text!r} imports a different object")
    return text


def function() -> Kind[Callable[..., Any]]:
    """A callable; as text or JSON, "package.module:function"."""
    schema = {"type": "string", "pattern": "^[^:]+:[^:]+$"}

    def load(value: Any) -> Any:
        return import_callable(value) if isinstance(value, str) else value

    check: Validator = v.is_callable()
    return Kind("callable", "a callable", check, schema, import_callable, write=name_of_callable, load=load)
