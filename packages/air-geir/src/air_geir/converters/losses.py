"""Losses."""

from __future__ import annotations

import torch

from air_geir.building import Context, Value
from air_geir.converters._precision import working_dtype
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, f32, f64, i64
from air_geir.converters.reductions import reduce

aten = torch.ops.aten

_REDUCTION = ("none", "mean", "sum")


@converts(
    aten.mse_loss.default,
    samples=[Sample(f32(3, 4), f32(3, 4)), Sample(f32(3), f32(3), 0), Sample(f32(3), f32(3), 2)],
)
def mse_loss(ctx: Context, self: Value, target: Value, reduction: int = 1) -> Value:
    """mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"""
    predicted, label = ctx.promote(self, target, dtype=ctx.out_dtype)
    return ctx.emit("MseLoss", predicted, label, reduction=_REDUCTION[reduction])


@converts(
    aten.l1_loss.default,
    samples=[
        Sample(f32(3, 4), f32(3, 4)), Sample(f32(3), f32(3), 0), Sample(f32(3), f32(3), 2), Sample(f32(), f32()),
        Sample(f32(3, 4), f32(4)), Sample(f64(3), f32(3)),
    ],
)  # fmt: skip
def l1_loss(ctx: Context, self: Value, target: Value, reduction: int = 1) -> Value:
    """l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"""
    dtype = ctx.out_dtype
    if not dtype.is_floating_point or self.dtype.is_complex or target.dtype.is_complex:
        ctx.decompose()  # whole numbers wrap around before the sign is dropped
    away = ctx.emit("Abs", ctx.emit("Sub", *ctx.promote(self, target, dtype=working_dtype(dtype))))
    if _REDUCTION[reduction] != "none":
        op_type = "ReduceMean" if _REDUCTION[reduction] == "mean" else "ReduceSum"
        away = reduce(ctx, op_type, away, list(range(away.rank)), False)
    return ctx.cast(away, dtype)


@converts(
    aten.nll_loss_forward.default,
    samples=[
        Sample(f32(4, 5), i64(4, low=0, high=5), f32(5, low=0.1), 1, -100),
        Sample(f32(4, 5), i64(4, low=0, high=5), None, 0, 2),
        Sample(f32(4, 5), i64(4, low=0, high=5), None, 2, -100),
    ],
)
def nll_loss_forward(
    ctx: Context, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value, Value]:
    """nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)"""  # noqa: E501
    if self.rank != 2:
        ctx.decompose()
    loss, total = ctx.emit_many(
        "NLLLoss", self, target, weight, reduction=_REDUCTION[reduction], ignore_index=ignore_index
    )
    return loss, total
