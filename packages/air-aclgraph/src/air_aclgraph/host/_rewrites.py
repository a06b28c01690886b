"""Ways to compute an operator into given memory when it has no `.out` kernel of its own.

    _to_copy(x), clone(x)   ->   out.copy_(x)
    full(size, v), zeros    ->   out.fill_(v)
    relu(x)                 ->   clamp_min.out(x, 0, out)
    add.Scalar(x, 2)        ->   add.out(x, 2, out)
    embedding(w, i)         ->   index_select.out(w, 0, i.view(-1), out.view(i.numel(), dim))

Each row gives the call to make, or None when the arguments at hand do not fit it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten


@dataclass(frozen=True)
class Call:
    """One operator call with its arguments bound."""

    overload: OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


Rewrite = Callable[[Sequence[Any], Mapping[str, Any], Tensor], "Call | None"]


def _copy(args: Sequence[Any], kwargs: Mapping[str, Any], out: Tensor) -> Call | None:
    return Call(aten.copy_.default, (out, args[0]), {})


def _fill(value: Callable[[Sequence[Any]], Any]) -> Rewrite:
    def rewrite(args: Sequence[Any], kwargs: Mapping[str, Any], out: Tensor) -> Call | None:
        number = value(args)
        return None if isinstance(number, Tensor) else Call(aten.fill_.Scalar, (out, number), {})

    return rewrite


def _with_scalar(overload: OpOverload) -> Rewrite:
    """`op.Scalar(x, number, ...)` is `op.out(x, number, ...)`: the number is wrapped either way."""

    def rewrite(args: Sequence[Any], kwargs: Mapping[str, Any], out: Tensor) -> Call | None:
        named = dict(kwargs)
        if len(args) > 2:
            named["alpha"] = args[2]
        return Call(overload, tuple(args[:2]), {**named, "out": out})

    return rewrite


def _relu(args: Sequence[Any], kwargs: Mapping[str, Any], out: Tensor) -> Call | None:
    return Call(aten.clamp_min.out, (args[0], 0), {"out": out})


def _embedding(args: Sequence[Any], kwargs: Mapping[str, Any], out: Tensor) -> Call | None:
    weight, indices = args[0], args[1]
    if weight.dim() != 2 or not indices.is_contiguous() or not out.is_contiguous():
        return None
    rows = out.view(indices.numel(), weight.shape[1])
    return Call(aten.index_select.out, (weight, 0, indices.view(-1)), {"out": rows})


REWRITES: Final[dict[OpOverload, Rewrite]] = {
    aten._to_copy.default: _copy,
    aten.clone.default: _copy,
    aten.full.default: _fill(lambda args: args[1]),
    aten.full_like.default: _fill(lambda args: args[1]),
    aten.new_full.default: _fill(lambda args: args[2]),
    aten.scalar_tensor.default: _fill(lambda args: args[0]),
    aten.zeros.default: _fill(lambda args: 0),
    aten.zeros_like.default: _fill(lambda args: 0),
    aten.new_zeros.default: _fill(lambda args: 0),
    aten.ones.default: _fill(lambda args: 1),
    aten.ones_like.default: _fill(lambda args: 1),
    aten.new_ones.default: _fill(lambda args: 1),
    aten.add.Scalar: _with_scalar(aten.add.out),
    aten.sub.Scalar: _with_scalar(aten.sub.out),
    aten.mul.Scalar: _with_scalar(aten.mul.out),
    aten.div.Scalar: _with_scalar(aten.div.out),
    aten.relu.default: _relu,
    aten.embedding.default: _embedding,
}
"""Operators that can be computed in place of an allocation by another call."""
