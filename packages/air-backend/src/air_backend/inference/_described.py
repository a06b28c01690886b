"""What a global value was when a graph was traced, as text that a later process can compare with its own.

Dynamo guards on globals, and torch compares none of these guards when it reads a file. What is read of a value has a
guard of its own (an element, an attribute), so each value is described by itself alone. Only members of a set and keys
of a dictionary have none, and are described with all that is in them.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import numbers
import re
from collections.abc import Callable
from functools import partial
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    EllipsisType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final

import torch
from torch import nn

from air_backend.inference._key import PLAIN, code_of
from air_backend.inference._local_classes import own_name

_DIGEST: Final = "a value with the digest "
_OF_TORCH: Final = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_OF_C: Final = (
    MethodDescriptorType, ClassMethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType,
)  # fmt: skip


def described(value: object, *, contents: bool = True) -> str:
    """The value, where text can hold it; else what it is, with the names of attributes, or its `contents`."""
    for kinds, describe in _KINDS:
        if isinstance(value, kinds):
            return describe(value) if contents or describe not in _OF_CONTENTS else _kind(value)
    if isinstance(getattr(type(value), "__members__", None), dict):  # an enumeration in C++
        return f"{_kind(value)} {value!r}"
    name = getattr(value, "__name__", None)  # that of a function of another library in C, such as numpy
    text = f"{_kind(value)} {name}" if isinstance(name, str) else _kind(value)
    return f"{text} with {sorted(getattr(value, '__dict__', ()))}"


def is_as(value: object, text: str) -> bool:
    """Whether a value is what the text says, which may or may not be about its contents."""
    if is_hidden(text):
        return text in (hidden(described(value, contents=False)), hidden(described(value)))
    return text == described(value, contents=False) or text == described(value)


def hidden(text: str) -> str:
    """A text that says no more of a value than whether it is the same."""
    return f"{_DIGEST}{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def is_hidden(text: str) -> bool:
    return text.startswith(_DIGEST)


def _kind(value: object) -> str:
    return f"a {_named(type(value))}"


def _named(value: Any) -> str:
    owner = getattr(value, "__module__", None) or getattr(value, "__self__", None)
    if isinstance(value, type):
        return f"{owner}.{own_name(value)}"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", type(value).__qualname__)
    return f"{owner}.{name}"


def _code(value: CodeType) -> str:
    return f"{value.co_name} {hashlib.sha256(repr(code_of(value)).encode()).hexdigest()[:16]}"


def _function(value: FunctionType) -> str:
    return f"{value.__module__}.{value.__qualname__} {_code(value.__code__)}"


def _partial(value: partial[Any]) -> str:
    return f"a partial of {described(value.func)}"


def _set(value: set[Any] | frozenset[Any]) -> str:
    return f"{type(value).__name__} of {sorted(map(_member, value))}"


def _dict(value: dict[Any, Any]) -> str:
    return f"{type(value).__name__} with {[_member(key) for key in value]}"


def _member(value: object) -> str:
    if isinstance(value, tuple):
        return f"{_kind(value)} of {[_member(one) for one in value]}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
        return f"{_kind(value)} of { {name: _member(part) for name, part in parts.items()} }"
    return described(value)


def _sequence(value: list[Any] | tuple[Any, ...]) -> str:
    return f"{type(value).__name__} of {len(value)}"


def _tensor(value: torch.Tensor) -> str:
    return " ".join((f"a {_named(type(value))}", *map(str, facts_of(value))))


def facts_of(value: torch.Tensor) -> tuple[object, ...]:
    """What a graph depends on of a tensor that it reads in each call."""
    places = value.stride() if value.layout is torch.strided else ()
    gradients = f"{'with' if value.requires_grad else 'without'} gradients"
    bits = [name for name, given in (("conj", value.is_conj()), ("neg", value.is_neg())) if given]
    return value.dtype, tuple(value.shape), places, value.device, value.layout, gradients, *bits


_OF_CONTENTS: Final = (_set, _dict, _sequence)
_KINDS: Final[tuple[tuple[Any, Callable[[Any], str]], ...]] = (
    (enum.Enum, lambda value: f"{_named(type(value))}.{value.name}"),
    ((*PLAIN, numbers.Number, range, slice, EllipsisType, *_OF_TORCH), repr),
    (FunctionType, _function),
    (MethodType, lambda value: f"a method {described(value.__func__)}"),
    (CodeType, _code),
    (partial, _partial),
    (ModuleType, lambda value: str(value.__name__)),
    (_OF_C, lambda value: f"{_named(value.__objclass__)}.{value.__name__}"),
    (re.Pattern, lambda value: f"{value.pattern!r} {value.flags}"),
    ((torch.finfo, torch.iinfo), lambda value: f"{_kind(value)} of {value.dtype}"),
    ((type, BuiltinFunctionType, torch._ops.OpOverload, torch._ops.OpOverloadPacket), _named),
    ((set, frozenset), _set),
    (dict, _dict),
    ((list, tuple), _sequence),
    (torch.Tensor, _tensor),
    (nn.Module, _kind),  # its attributes have conditions of their own
)
