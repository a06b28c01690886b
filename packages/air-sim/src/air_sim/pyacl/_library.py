"""Calls of the C functions behind the module: a number that is given is a handle, an address or a size."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

_LIBRARIES: Final = ("libascendcl.so", "libge_runner.so")


@cache
def _function(name: str, result: Any) -> Any:
    """One function with the type of its result; each type gets a function object of its own."""
    for library in _LIBRARIES:
        try:
            function = ctypes.CDLL(library)[name]
        except AttributeError:
            continue
        function.restype = result
        return function
    raise AttributeError(f"air-sim has no function {name}")


def _words(arguments: tuple[Any, ...]) -> list[Any]:
    """Each number as a machine word, which is wide enough for every parameter."""
    return [ctypes.c_size_t(value) if isinstance(value, int) else value for value in arguments]


def code(name: str, *arguments: Any) -> int:
    """Calls a function that gives an error code."""
    return int(_function(name, ctypes.c_int)(*_words(arguments)))


def pointer(name: str, *arguments: Any) -> int:
    """Calls a function that gives an address or a handle."""
    return int(_function(name, ctypes.c_void_p)(*_words(arguments)) or 0)


def size(name: str, *arguments: Any) -> int:
    """Calls a function that gives a size."""
    return int(_function(name, ctypes.c_size_t)(*_words(arguments)))


def text(name: str, *arguments: Any) -> str:
    """Calls a function that gives a text."""
    return (_function(name, ctypes.c_char_p)(*_words(arguments)) or b"").decode(errors="replace")


def handle_of(name: str, *arguments: Any) -> tuple[int, int]:
    """Calls a function that writes a handle through its first parameter: the handle, and the error code."""
    made = ctypes.c_void_p()
    failed = code(name, ctypes.byref(made), *arguments)
    return made.value or 0, failed
