"""Arguments of classes derived from Tensor: torch's check of custom operators refuses them.

In the first call of a graph AOTAutograd looks whether custom operators give back what they were given, in a mode that
takes plain tensors only. With another class every operator is a TypeError there, whether or not it is a custom one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import HANDLED_TYPES
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_UNCHECKED: Final = {"check_custom_op_aliasing": False}


def without_check_of_classes(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled`, unchecked where an argument is of such a class; Dynamo makes a graph for each class."""
    unchecked: bool | None = None

    def call(*args: Any) -> Any:
        nonlocal unchecked
        if unchecked is None:
            unchecked = any(map(_is_of_own_class, args))
        if not unchecked:
            return compiled(*args)
        with torch._functorch.config.patch(_UNCHECKED):
            return compiled(*args)

    return call


def _is_of_own_class(value: object) -> bool:
    if not isinstance(value, Tensor):
        return False
    kind = type(value.data) if isinstance(value, torch.nn.Parameter) else type(value)
    return kind not in HANDLED_TYPES and not is_traceable_wrapper_subclass(value)
