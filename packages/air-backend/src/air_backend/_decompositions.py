"""`custom_decompositions`: what a caller gives, checked, with the overloads of each operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch._ops import OperatorBase, OpOverloadPacket

from air_backend.errors import NoDecomposition

__all__ = ["decompositions_of"]


def decompositions_of(given: Mapping[Any, Callable[..., Any]] | None) -> dict[Any, Callable[..., Any]]:
    """By overload, as torch looks them up: an operator without one, `torch.ops.aten.relu`, stands for all it has."""
    if not isinstance(given, (Mapping, type(None))):
        raise NoDecomposition(f"is of type {type(given).__name__}")
    found: dict[Any, Callable[..., Any]] = {}
    for op, function in (given or {}).items():
        if not isinstance(op, (OperatorBase, OpOverloadPacket)):
            raise NoDecomposition(f"has the key {op!r:.120}, which is no operator of torch.ops")
        if not callable(function):
            raise NoDecomposition(
                f"has for {op} a value of {type(function).__name__}, which cannot be called"
            )
        if not isinstance(op, OpOverloadPacket):
            found[op] = function
    for op, function in (given or {}).items():
        if isinstance(op, OpOverloadPacket):  # after those that name an overload
            found = {**{getattr(op, name): function for name in op.overloads()}, **found}
    return found
