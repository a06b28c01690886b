"""Gradients of torch's operators that torch_npu has under names of its own."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._sample import F32, Draw, Sample
from air_fxpasses.npu_cards._types import wide

_MEAN: Final = 1


def l1_loss_backward(grad_output: Tensor, input: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Of the first operand: the sign of the difference, for each element or for the mean."""
    shares = wide(grad_output) * (wide(input) - wide(target)).sign()
    return (shares / shares.numel() if reduction == _MEAN else shares).to(input.dtype)


def repeat_interleave_backward(grad: Tensor, input: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    """What an element was repeated into is added up."""
    if dim is None:
        return grad.reshape(input.numel(), repeats).sum(1).reshape(input.shape)
    axis = dim % input.dim()
    sizes = (*input.shape[: axis + 1], repeats, *input.shape[axis + 1 :])
    return grad.reshape(sizes).sum(axis + 1)


def _differences(draw: Draw) -> list[Sample]:
    one, each = draw.real(dtype=F32), draw.real(3, 5, dtype=F32)
    first, second = draw.real(3, 5, dtype=F32), draw.real(3, 5, dtype=F32)
    return [
        Sample((one, first, second, 1), label="mean"),
        Sample((one, first, second, 2), label="sum"),
        Sample((each, first, second, 0), label="each"),
    ]


def _repeated(draw: Draw) -> list[Sample]:
    return [
        Sample((draw.real(3, 10, dtype=F32), draw.real(3, 5, dtype=F32), 2, 1)),
        Sample((draw.real(9, 4, dtype=F32), draw.real(3, 4, dtype=F32), 3, -2), label="rows"),
        Sample((draw.real(24, dtype=F32), draw.real(3, 4, dtype=F32), 2), label="flat"),
    ]


OPS: Final = (
    NpuOp("l1_loss_backward", l1_loss_backward, _differences),
    NpuOp("repeat_interleave_backward_int", repeat_interleave_backward, _repeated),
)
