"""What the classes were that a trace looked into, as text that a later process can compare with its own.

    class Model(nn.Module):
        scale = SCALE                          # Dynamo has no condition on it: for Dynamo a class is what it is
        def forward(self, x): ...              # a class made inside a function: `forward` may close over a number

Dynamo guards which class a value has, by identity, and a file names classes. Of two classes with one name the plain
attributes are compared, the members of an enumeration, and the code of functions with what they close over. How an
object is made counts for classes that the program itself names: of others there were objects before it was traced.

Of the classes of Python and of torch, which the versions in a file stand for, what the program has put into them is
compared (`torch.nn.Linear.forward = mine`).
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]  # typeshed has it not
import abc
import enum
import functools
import hashlib
import importlib
import operator
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import Any, Final

import torch

from air_backend.inference._described import described
from air_backend.inference._key import PLAIN

Classes = Mapping[str, str]
"""Module and name of a class -> a digest of what is in it; the name of one that may be called ends with `()`."""

_CALLED: Final = "()"
_MAKING: Final = frozenset({"__init__", "__new__", "__post_init__"})

_PLAIN: Final = (*PLAIN, torch.dtype, enum.Enum)
#: Whose classes the versions in a file stand for.
_OF_VERSIONS: Final = sys.stdlib_module_names | {"torch"}
#: Whose functions in such a class come with the versions too; and ours, by how their names begin.
_OF_PLUGINS: Final = frozenset({"torch_npu", "torchair"})
_OURS: Final = "air_"
#: Torch's compiler, which counts the changes of modules with functions of its own in their class as soon as it runs.
_COMPILER: Final = "torch._dynamo."
#: A flag of types; of one without it, such as `dict`, nobody can change an attribute.
_MAY_BE_PATCHED: Final = 1 << 9


def classes_of(guards: Iterable[Any]) -> Classes:
    """The classes of the values that a graph has conditions on."""
    values = [guard.value for guard in guards]
    of_objects = {type(value): None for value in values}
    called = {value: None for value in values if isinstance(value, type)}
    return {**_described(of_objects, ""), **_described(called, _CALLED)}


def changed(classes: Classes) -> str | None:
    """The first class that is another one in this process, or is not there; None where all are the same."""
    for name, digest in classes.items():
        cls = _found(name)
        if not isinstance(cls, type) or _digest(_texts(cls, called=name.endswith(_CALLED))) != digest:
            return name
    return None


def _found(name: str) -> Any:
    module, _, path = name.removesuffix(_CALLED).partition(":")
    try:
        known = sys.modules.get(module) or _imported(module)
        return operator.attrgetter(path)(known)
    except (ImportError, AttributeError):
        return None


def _imported(module: str) -> Any:
    """A module of torch, of which some are imported where a trace needs them; None for any other."""
    return importlib.import_module(module) if _package(module) in _OF_VERSIONS else None


def _described(classes: Iterable[type], called: str) -> Classes:
    found: dict[str, str] = {}
    for cls in classes:
        name = f"{cls.__module__}:{cls.__qualname__}{called}"
        texts = _texts(cls, called=bool(called))
        is_ours = _package(cls.__module__) not in _OF_VERSIONS and any(texts.values())
        if is_ours or (
            cls.__flags__ & _MAY_BE_PATCHED and _found(name) is cls
        ):  # some are found under no name
            found[name] = _digest(texts)
    return found


def _texts(cls: type, *, called: bool) -> dict[type, list[str]]:
    """What is in a class and its bases: by the class, since a base may have the name of what was made of it."""
    found = {}
    for base in cls.__mro__:
        if _package(base.__module__) not in _OF_VERSIONS:
            found[base] = _text_of_class(base, called=called)
        elif patched := _text_of_patches(base):
            found[base] = patched
    return found


def _digest(texts: Mapping[type, list[str]]) -> str:
    return hashlib.sha256(repr(list(texts.values())).encode()).hexdigest()[:16]


def _package(module: str) -> str:
    return module.partition(".")[0]


def _text_of_patches(cls: type) -> list[str]:
    """What a program has put into a class of Python or torch: functions of others, or of another name."""
    return [
        f"{name} = {text}"
        for name, value in sorted(vars(cls).items())
        if _is_patch(cls, name, value) and (text := _text(value, set()) or described(value))
    ]


def _is_patch(cls: type, name: str, value: Any) -> bool:
    if isinstance(value, property):
        return any(_is_patch(cls, name, one) for one in (value.fget, value.fset) if one is not None)
    if isinstance(value, (staticmethod, classmethod)):
        return _is_patch(cls, name, value.__func__)
    if isinstance(value, (BuiltinFunctionType, MethodDescriptorType)):
        return value.__name__ != name
    if not isinstance(value, FunctionType):
        return False
    module = value.__globals__.get("__name__", "")
    package = _package(module)
    if package in _OF_PLUGINS or package.startswith(_OURS) or module.startswith(_COMPILER):
        return False
    return package not in _OF_VERSIONS or value.__qualname__ != f"{cls.__qualname__}.{name}"


def _text_of_class(cls: type, *, called: bool) -> list[str]:
    members: Iterable[Any] = list(cls) if isinstance(cls, enum.EnumMeta) else ()
    texts = [f"{member.name} = {_text(member.value, set())}" for member in members]
    return [*texts, *_registered(cls)] + [
        f"{name} = {text}"
        for name, value in _attributes(cls)
        if (called or name not in _MAKING) and (text := _text(value, set()))
    ]


def _registered(cls: type) -> list[str]:
    """The classes that the program has registered with an abstract one: they are told by `isinstance`."""
    if not isinstance(cls, abc.ABCMeta):
        return []
    registry = (one() for one in _abc._get_dump(cls)[0])
    return sorted(f"{one.__module__}.{one.__qualname__} is one" for one in registry if one is not None)


def _attributes(cls: type) -> Iterator[tuple[str, Any]]:
    """All but what Python itself writes about a class, such as its documentation and its first line."""
    for name, value in sorted(vars(cls).items()):
        written = name.startswith("__") and name.endswith("__") and isinstance(value, PLAIN)
        if not written and name != "__static_attributes__":  # of Python 3.13, in any order
            yield name, value


def _text(value: Any, seen: set[int]) -> str:
    """What a value is; empty for what no text can stand for, which Dynamo has conditions on where it looks."""
    if isinstance(value, _PLAIN):
        return described(value)
    if isinstance(value, (tuple, frozenset)):
        texts = [_text(one, seen) for one in value]
        return f"{type(value).__name__} of {texts if isinstance(value, tuple) else sorted(texts)}"
    if id(value) in seen:
        return ""
    seen.add(id(value))
    return " ".join(_text_of_function(value, seen))


def _text_of_function(value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, property):
        yield from (_text(one, seen) for one in (value.fget, value.fset) if one is not None)
    elif isinstance(value, (staticmethod, classmethod)):
        yield _text(value.__func__, seen)
    elif isinstance(value, functools.partial):
        yield from (_text(one, seen) for one in (value.func, value.args, tuple(value.keywords.items())))
    elif isinstance(value, FunctionType):
        yield described(value.__code__)
        yield from (_text(one, seen) for one in _held(value))


def _held(function: FunctionType) -> Iterator[Any]:
    """What a function closes over, and its defaults."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # nothing was put into it yet
            yield None
    yield from function.__defaults__ or ()
    yield from sorted((function.__kwdefaults__ or {}).items())
