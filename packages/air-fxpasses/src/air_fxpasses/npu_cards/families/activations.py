"""Activations: alone, and gated by the other half."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._ir import Ir
from air_fxpasses.npu_cards._rotate import deinterleaved
from air_fxpasses.npu_cards._sample import Draw, Sample
from air_fxpasses.npu_cards._types import wide
from air_fxpasses.npu_cards.errors import NotCovered
from air_fxpasses.padding._by_rows import by_rows
from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Labels


def _halved(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Both halves along `dim`, in 32 bits."""
    torch._check(x.shape[dim] % 2 == 0, lambda: f"axis {dim} is halved, and its size is odd")
    first, second = wide(x).chunk(2, dim)
    return first, second


def swiglu(input: Tensor, dim: int = -1) -> Tensor:
    """`silu` of the first half along `dim`, times the second half."""
    gate, linear = _halved(input, dim)
    return (functional.silu(gate) * linear).to(input.dtype)


def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """Exact, or by the formula with `tanh`."""
    return functional.gelu(wide(input), approximate=approximate).to(input.dtype)


def fast_gelu(input: Tensor) -> Tensor:
    """`x * sigmoid(1.702 x)`."""
    values = wide(input)
    return (values * torch.sigmoid(1.702 * values)).to(input.dtype)


def geglu(
    input: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False
) -> tuple[Tensor, Tensor]:
    """One half along `dim` times the gelu of the other, and that gelu; `approximate=1` is `tanh`."""
    left, right = _halved(input, dim)
    linear, gate = (right, left) if activate_left else (left, right)
    activated = functional.gelu(gate, approximate="tanh" if approximate == 1 else "none")
    return (linear * activated).to(input.dtype), activated.to(input.dtype)


def clipped_swiglu(
    x: Tensor,
    *,
    group_index: Tensor | None = None,
    dim: int = -1,
    alpha: float = 1.702,
    limit: float = 7.0,
    bias: float = 1.0,
    interleaved: bool = True,
) -> Tensor:
    """`gate * sigmoid(alpha * gate) * (linear + bias)` of neighbours or halves, kept within `limit`."""
    if group_index is not None:
        raise NotCovered("npu_clipped_swiglu", "rows of groups (group_index)")
    values = x.movedim(dim, -1)
    gate, linear = _halved(deinterleaved(values) if interleaved else values, -1)
    gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    return (gate * torch.sigmoid(alpha * gate) * (linear + bias)).movedim(-1, dim).to(x.dtype)


def _halves(call: Call) -> tuple[Labels, ...]:
    """Halves of a dimension are multiplied."""
    labels = call.labels(call.schema.arguments[0].name)
    call.require_none(
        [labels[dim] for dim in call.dims("dim", len(labels))], "halves of the padded dimension meet"
    )
    return (labels,) * len(call.outputs())


def _each(draw: Draw) -> list[Sample]:
    return [Sample((draw.real(3, 16),))]


def _sixteen(draw: Draw) -> list[Sample]:
    return [Sample((draw.real(3, 16),)), Sample((draw.real(3, 16, 4), 1), label="middle")]


def _pairs(draw: Draw) -> list[Sample]:
    halves = {"interleaved": False, "dim": 1, "limit": 0.5}
    return [Sample((draw.real(3, 16) * 8,)), Sample((draw.real(3, 16, 4),), halves, "halves")]


_EACH: Final = by_rows("input", mixed=0)

OPS: Final = (
    NpuOp("npu_swiglu", swiglu, _sixteen, padding=_halves, ir=Ir("SwiGlu", {"x": "input"})),
    NpuOp("npu_geglu", geglu, _sixteen, padding=_halves, ir=Ir("GeGluV2", {"x": "input"})),
    NpuOp("npu_gelu", gelu, _each, padding=_EACH, ir=Ir("GeluV2", {"x": "input"})),
    NpuOp("npu_fast_gelu", fast_gelu, _each, padding=_EACH, ir=Ir("FastGelu", {"x": "input"})),
    NpuOp("fast_gelu", fast_gelu, _each, padding=_EACH, ir=Ir("FastGelu", {"x": "input"})),
    NpuOp("npu_clipped_swiglu", clipped_swiglu, _pairs, padding=_halves, ir=Ir("ClippedSwiglu")),
)
