"""Operators over lists of tensors, as the same operator on each tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

_BY_NAME: Mapping[str, Callable[..., Any]] = {
    "copy": torch.ops.aten.copy.default,
    "norm": torch.linalg.vector_norm,
    "powsum": lambda x, ord=2, dtype=None: x.abs().pow(ord).sum(dtype=dtype),
    "addcdiv": lambda x, a, b, value=1: torch.addcdiv(x, a, b, value=value),
    "addcmul": lambda x, a, b, value=1: torch.addcmul(x, a, b, value=value),
    "add": lambda x, other, alpha=1: torch.add(x, other, alpha=alpha),
    "sub": lambda x, other, alpha=1: torch.sub(x, other, alpha=alpha),
}
_BY_SCALAR: Mapping[str, Callable[..., Any]] = {
    "maximum": torch.clamp_min,
    "minimum": torch.clamp_max,
    "clamp_min": torch.clamp_min,
    "clamp_max": torch.clamp_max,
}
_OVER_NUMBERS = ("Scalar", "ScalarList")
_BY_ONE_TENSOR = ("add", "mul", "div")
"""What takes a tensor of one number for all, as it is; others read numbers from a tensor of the host."""


def foreach_decomposition(op: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """How a functional `_foreach_` operator is written with the operator on single tensors."""
    prefix, _, name = op._schema.name.partition("_foreach_")
    if prefix != "aten::" or op._schema.is_mutable:
        return None
    if op._overloadname == "Tensor" and name not in _BY_ONE_TENSOR:
        return None
    function = _BY_SCALAR.get(name) if op._overloadname in _OVER_NUMBERS else None
    function = function or _BY_NAME.get(name) or getattr(torch, name, None)
    if function is None:
        return None

    def apply(*args: Any, **kwargs: Any) -> list[Any]:
        length = len(next(a for a in args if isinstance(a, (list, tuple))))
        return [
            function(*(a[i] if isinstance(a, (list, tuple)) else a for a in args), **kwargs)
            for i in range(length)
        ]

    return apply
