"""The kind of a value that can be called, and how a callable is written down as text."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

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


def function(*parameters: str) -> Kind[Callable[..., Any]]:
    """A callable that takes these arguments by position; as text or JSON, "package.module:function"."""
    schema = {"type": "string", "pattern": "^[^:]+:[^:]+$"}

    def load(value: Any) -> Any:
        return import_callable(value) if isinstance(value, str) else value

    callable_now: Validator = v.and_(v.is_callable(), _runs_when_called)
    check = v.and_(callable_now, _takes(parameters)) if parameters else callable_now
    allowed = f"a function of ({', '.join(parameters)})" if parameters else "a callable"
    return Kind("callable", allowed, check, schema, import_callable, write=name_of_callable, load=load)


def _runs_when_called(instance: Any, attribute: Any, value: Any) -> None:
    """Refuses a function whose body a call does not run."""
    for is_one, what in RUN_LATER:
        if is_one(value) or is_one(getattr(value, "__call__", None)):  # noqa: B004 -- the method itself
            raise ValueError(f"{_place(value)} is {what}: to call it does not run it")


RUN_LATER: Final[tuple[tuple[Callable[[Any], bool], str], ...]] = (
    (inspect.isgeneratorfunction, "a generator"),
    (inspect.isasyncgenfunction, "an asynchronous generator"),
    (inspect.iscoroutinefunction, "a coroutine (async def)"),
)
"""Functions of which a call makes an object, which runs later or never."""


def _takes(parameters: Sequence[str]) -> Validator:
    """Refuses a callable that cannot take these arguments; one without a signature is accepted."""

    def check(instance: Any, attribute: Any, value: Any) -> None:
        try:
            signature = inspect.signature(value)
        except (TypeError, ValueError):  # a builtin without one
            return
        try:
            signature.bind(*parameters)
        except TypeError as error:
            raise ValueError(f"{_place(value)} takes ({', '.join(signature.parameters)}): {error}") from None

    return check


def _place(value: Any) -> str:
    code = getattr(inspect.unwrap(value), "__code__", None)
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return name if code is None else f"{name} at {code.co_filename}:{code.co_firstlineno}"
