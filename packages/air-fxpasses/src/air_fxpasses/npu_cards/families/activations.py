"""Gated activations."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._ir import Ir
from air_fxpasses.npu_cards._sample import Sample
from air_fxpasses.npu_cards._types import wide
from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Labels


def swiglu(input: Tensor, dim: int = -1) -> Tensor:
    """`silu` of the first half along `dim`, times the second half."""
    gate, linear = wide(input).chunk(2, dim)
    return (torch.nn.functional.silu(gate) * linear).to(input.dtype)


def _swiglu_fake(input: Tensor, dim: int = -1) -> Tensor:
    size = list(input.shape)
    torch._check(size[dim] % 2 == 0, lambda: f"npu_swiglu halves axis {dim}, whose size is odd")
    size[dim] = size[dim] // 2
    return input.new_empty(size)


def _halves(call: Call) -> tuple[Labels, ...]:
    """Halves of a dimension are multiplied."""
    labels = call.labels("input")
    call.require_none(
        [labels[dim] for dim in call.dims("dim", len(labels))], "halves of the padded dimension meet"
    )
    return (labels,)


OPS: Final = (
    NpuOp(
        "npu_swiglu",
        swiglu,
        lambda draw: [Sample((draw.real(3, 16),)), Sample((draw.real(3, 16, 4), 1), label="middle")],
        _swiglu_fake,
        padding=_halves,
        ir=Ir("SwiGlu", {"x": "input"}),
    ),
)
