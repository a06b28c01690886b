"""torch's check that results of custom operators share no memory with arguments, and the calls that go without it.

In the first call of a graph AOTAutograd looks whether custom operators give back what they were given. It warns where
one does, raises where the variable `CI` is set, and does so in a mode that takes plain tensors only: with an argument
of another class every operator is a TypeError there, whether or not it is a custom one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._functorch.config
from torch import Tensor
from torch.fx.experimental.proxy_tensor import HANDLED_TYPES
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def unchecked(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled` without the check."""

    def call(*args: Any) -> Any:
        with torch._functorch.config.patch(check_custom_op_aliasing=False):
            return compiled(*args)

    return call


def without_check_of_classes(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled`, unchecked where an argument is of another class; Dynamo makes a graph for each class."""
    run: Callable[..., Any] | None = None

    def call(*args: Any) -> Any:
        nonlocal run
        if run is None:
            run = unchecked(compiled) if any(map(_is_of_own_class, args)) else compiled
        return run(*args)

    return call


def _is_of_own_class(value: object) -> bool:
    if not isinstance(value, Tensor):
        return False
    kind = type(value.data) if isinstance(value, torch.nn.Parameter) else type(value)
    return kind not in HANDLED_TYPES and not is_traceable_wrapper_subclass(value)
