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
    return _averaged(shares, reduction).to(input.dtype)


def kl_div_backward(
    grad_output: Tensor, input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """Minus the probability of the target, for each element or for the mean; nothing where it is zero."""
    wanted = wide(target)
    shares = -wanted.exp() if log_target else -wanted.clamp(min=0)
    return _averaged(shares * wide(grad_output), reduction).to(input.dtype)


def binary_cross_entropy_backward(
    grad_output: Tensor,
    input: Tensor,
    target: Tensor,
    weight_opt: Tensor | None,
    pos_weight_opt: Tensor | None,
    reduction: int,
) -> Tensor:
    """The probability less the target; a weight of positives counts those more."""
    chance, wanted = wide(input).sigmoid(), wide(target)
    if pos_weight_opt is None:
        shares = chance - wanted
    else:
        positives = wide(pos_weight_opt) * wanted
        shares = (positives + 1 - wanted) * chance - positives
    if weight_opt is not None:
        shares = shares * wide(weight_opt)
    return _averaged(shares * wide(grad_output), reduction).to(input.dtype)


def _averaged(shares: Tensor, reduction: int) -> Tensor:
    return shares / shares.numel() if reduction == _MEAN else shares


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


def _probabilities(draw: Draw) -> list[Sample]:
    one, logs = draw.real(dtype=F32), draw.real(3, 5, dtype=F32)
    target = (draw.positive(3, 5, dtype=F32) - 0.9).clamp(min=0)
    return [
        Sample((one, logs, target)),
        Sample((draw.real(3, 5, dtype=F32), logs, target, 0), label="each"),
        Sample((one, logs, draw.real(3, 5, dtype=F32), 2), {"log_target": True}, label="logarithms"),
    ]


def _weighted(draw: Draw) -> list[Sample]:
    one, each, logits = draw.real(dtype=F32), draw.real(3, 5, dtype=F32), draw.real(3, 5, dtype=F32)
    target, weight = draw.positive(3, 5, dtype=F32) - 0.5, draw.positive(3, 5, dtype=F32)
    return [
        Sample((one, logits, target, None, None, 1), label="mean"),
        Sample((one, logits, target, weight, None, 2), label="weighted"),
        Sample((each, logits, target, weight, draw.positive(5, dtype=F32), 0), label="positives"),
    ]


def _repeated(draw: Draw) -> list[Sample]:
    return [
        Sample((draw.real(3, 10, dtype=F32), draw.real(3, 5, dtype=F32), 2, 1)),
        Sample((draw.real(9, 4, dtype=F32), draw.real(3, 4, dtype=F32), 3, -2), label="rows"),
        Sample((draw.real(24, dtype=F32), draw.real(3, 4, dtype=F32), 2), label="flat"),
    ]


OPS: Final = (
    NpuOp("l1_loss_backward", l1_loss_backward, _differences),
    NpuOp("kl_div_backward", kl_div_backward, _probabilities),
    NpuOp("npu_binary_cross_entropy_with_logits_backward", binary_cross_entropy_backward, _weighted),
    NpuOp("repeat_interleave_backward_int", repeat_interleave_backward, _repeated),
)
