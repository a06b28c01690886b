"""Gradients of torch's operators that torch_npu has under names of its own."""

from __future__ import annotations

import math

import torch

from air_geir.building import Context, Size, Value
from air_geir.converters._precision import working_dtype
from air_geir.converters.npu_by_card import by_card

_MEAN = 1


def _averaged(ctx: Context, shares: Value, grad: Value, reduction: int, input: Value) -> Value:
    """Times the gradient of the loss, which counts each element, or their mean."""
    found = ctx.emit("Mul", shares, grad, shape=input.shape)
    if reduction == _MEAN:
        count = ctx.cast(ctx.sizes.scalar(ctx, math.prod(input.dims)), found.dtype)
        found = ctx.emit("RealDiv", found, count, shape=input.shape)
    return ctx.cast(found, ctx.out_dtype)


def _of_one_shape(ctx: Context, input: Value, target: Value) -> torch.dtype:
    if input.dims != target.dims:
        ctx.refuse("operands of two shapes have no operator", "broadcast them before the loss")
    return working_dtype(ctx.out_dtype)


@by_card("l1_loss_backward")
def l1_loss_backward(ctx: Context, grad_output: Value, input: Value, target: Value, reduction: int) -> Value:
    """The sign of the difference, as often as the loss counts it."""
    dtype = _of_one_shape(ctx, input, target)
    grad, first, second = ctx.promote(grad_output, input, target, dtype=dtype)
    side = ctx.emit("Sign", ctx.emit("Sub", first, second, shape=input.shape), shape=input.shape)
    return _averaged(ctx, side, grad, reduction, input)


@by_card("kl_div_backward")
def kl_div_backward(
    ctx: Context, grad_output: Value, input: Value, target: Value, reduction: int, log_target: bool
) -> Value:
    """Minus the probability of the target; nothing where it is zero."""
    dtype = _of_one_shape(ctx, input, target)
    grad, wanted = ctx.promote(grad_output, target, dtype=dtype)
    if log_target:
        chance = ctx.emit("Exp", wanted, shape=input.shape)
    else:
        chance = ctx.emit("Maximum", wanted, ctx.const(0, dtype), shape=input.shape)
    return _averaged(ctx, ctx.emit("Neg", chance, shape=input.shape), grad, reduction, input)


@by_card("npu_binary_cross_entropy_with_logits_backward")
def binary_cross_entropy_backward(
    ctx: Context, grad_output: Value, input: Value, target: Value, weight_opt: Value | None,
    pos_weight_opt: Value | None, reduction: int,
) -> Value:  # fmt: skip
    """The probability less the target; a weight of positives counts those more."""
    dtype = _of_one_shape(ctx, input, target)
    grad, logits, wanted = ctx.promote(grad_output, input, target, dtype=dtype)
    chance = ctx.emit("Sigmoid", logits, shape=input.shape)
    if pos_weight_opt is None:
        shares = ctx.emit("Sub", chance, wanted, shape=input.shape)
    else:
        positives = ctx.emit("Mul", ctx.cast(pos_weight_opt, dtype), wanted, shape=input.shape)
        rest = ctx.emit("Sub", ctx.const(1, dtype), wanted, shape=input.shape)
        counted = ctx.emit(
            "Mul", ctx.emit("Add", positives, rest, shape=input.shape), chance, shape=input.shape
        )
        shares = ctx.emit("Sub", counted, positives, shape=input.shape)
    if weight_opt is not None:
        shares = ctx.emit("Mul", shares, ctx.cast(weight_opt, dtype), shape=input.shape)
    return _averaged(ctx, shares, grad, reduction, input)


@by_card("repeat_interleave_backward_int")
def repeat_interleave_backward(
    ctx: Context, grad: Value, input: Value, repeats: Size, dim: int | None
) -> Value:
    """What an element was repeated into is added up."""
    axis = input.rank - 1 if dim is None else input.axis(dim)
    apart = (*input.dims[: axis + 1], repeats, *input.dims[axis + 1 :])
    return ctx.emit("ReduceSum", ctx.reshape(grad, apart), [axis + 1], shape=input.dims)
