"""Activation functions and softmax."""

from __future__ import annotations

import torch

from air_geir.building import Context, Number, Value
from air_geir.converters._precision import attributes_must_fit, working_dtype
from air_geir.converters._registry import converts
from air_geir.converters._rows import Body, each, register_direct, register_rows
from air_geir.converters._sample import Sample, bf16, f16, f32, i32

aten = torch.ops.aten

_NEAR = torch.tensor([0.298828125, 0.30078125, 1.0], dtype=torch.bfloat16)
"""The neighbours of 0.3."""
_PLAIN = {
    "relu.default": "Relu",
    "relu6.default": "Relu6",
    "silu.default": "Swish",
    "mish.default": "Mish",
    "hardswish.default": "HardSwish",
    "hardsigmoid.default": "HardSigmoid",
    "sigmoid.default": "Sigmoid",
    "selu.default": "Selu",
}


def _plain(op_type: str) -> Body:
    def convert(ctx: Context, self: Value) -> Value:
        return ctx.emit(op_type, ctx.cast(self, ctx.out_dtype))

    return convert


register_rows(_PLAIN, _plain, each([Sample(f32(3, 4, low=-5, high=5)), Sample(f16(3))]), "activations")


_DIRECT = {
    "gelu.default": (
        "GeluV2(self) {approximate}", [Sample(f32(3, 4)), Sample(f32(3, 4), approximate="tanh"), Sample(bf16(3))],
    ),
    "leaky_relu.default": ("LeakyRelu(self) {negative_slope}", [Sample(f32(3, 4)), Sample(f32(3), 0.2)]),
    "elu.default": ("Elu(self) {alpha scale input_scale}", [Sample(f32(3, 4)), Sample(f32(3), 0.5, 2.0, 1.5)]),
    "hardshrink.default": ("HardShrink(self) {lambd}", [Sample(f32(3, 4), 0.3)]),
    "softshrink.default": ("SoftShrink(self) {lambd}", [Sample(f32(3, 4), 0.3)]),
    "softplus.default": ("SoftplusV2(self) {beta threshold}", [Sample(f32(3, 4)), Sample(f32(3), 2.0, 1.0)]),
    "glu.default": ("GLU(self) {dim}", [Sample(f32(3, 4)), Sample(f32(4, 3), 0)]),
}  # fmt: skip
register_direct(_DIRECT, "activations")


@converts(aten.celu.default, samples=[Sample(f32(3, 4), 0.7)])
def celu(ctx: Context, self: Value, alpha: float = 1.0) -> Value:
    """celu(Tensor self, Scalar alpha=1.) -> Tensor"""
    sharp = 1.0 / float(alpha)
    attributes_must_fit(ctx, alpha, sharp, dtype=self.dtype)
    return ctx.emit("Elu", self, alpha=float(alpha), input_scale=sharp)


@converts(aten.hardtanh.default, samples=[Sample(f32(3, 4)), Sample(i32(4), -2, 3)])
def hardtanh(ctx: Context, self: Value, min_val: Number = -1, max_val: Number = 1) -> Value:
    """hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"""
    bounds = (ctx.converted(min_val, self.dtype), ctx.converted(max_val, self.dtype))
    return ctx.emit("ClipByValueV2", self, *bounds, shape=self.shape)


def _rounded_down(number: Number, dtype: torch.dtype) -> Number:
    """The largest number of the type that is not above: the same elements are above it."""
    if not dtype.is_floating_point or not isinstance(number, (int, float)):
        return number
    nearest = torch.tensor(number, dtype=dtype)
    lower = torch.nextafter(nearest, torch.tensor(float("-inf"), dtype=dtype))
    return float(lower if float(nearest) > number else nearest)


@converts(aten.threshold.default, samples=[Sample(f32(3, 4), 0.5, 2.0), Sample(_NEAR, 0.3, 0.1)])
def threshold(ctx: Context, self: Value, threshold: Number, value: Number) -> Value:
    """threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"""
    ctx.refuse_outside(threshold, working_dtype(self.dtype))
    return ctx.emit(
        "ThresholdV2",
        self,
        ctx.number(_rounded_down(threshold, self.dtype), self.dtype),
        ctx.converted(value, self.dtype),
        shape=self.shape,
    )


@converts(aten._prelu_kernel.default, samples=[Sample(f32(2, 3, 4), f32(1, 3, 1))])
def prelu(ctx: Context, self: Value, weight: Value) -> Value:
    """_prelu_kernel(Tensor self, Tensor weight) -> Tensor"""
    positive = ctx.emit("Greater", self, ctx.const(0, self.dtype))
    return ctx.emit("SelectV2", positive, self, ctx.emit("Mul", self, weight))


@converts(aten.log_sigmoid_forward.default, samples=[Sample(f32(3, 4))])
def log_sigmoid(ctx: Context, self: Value) -> tuple[Value, Value]:
    """log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)"""
    return ctx.emit("LogSigmoid", self), ctx.emit("Exp", ctx.emit("Neg", ctx.emit("Abs", self)))


def _along(ctx: Context, op_type: str, self: Value, dim: int, half_to_float: bool) -> Value:
    """A softmax over one axis; a single value is an axis of one element."""
    value = ctx.cast(self, torch.float32) if half_to_float else self
    if not self.rank:
        return ctx.reshape(ctx.emit(op_type, ctx.reshape(value, (1,)), axes=[0]), ())
    return ctx.emit(op_type, value, axes=[dim])


@converts(
    aten._softmax.default,
    samples=[Sample(f32(3, 4), -1, False), Sample(f32(3, 4), 0, False), Sample(f32(), 0, False)],
)
def softmax(ctx: Context, self: Value, dim: int, half_to_float: bool) -> Value:
    """_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    return _along(ctx, "SoftmaxV2", self, dim, half_to_float)


@converts(aten._log_softmax.default, samples=[Sample(f32(3, 4), -1, False), Sample(f32(3, 4), 0, False)])
def log_softmax(ctx: Context, self: Value, dim: int, half_to_float: bool) -> Value:
    """_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    return _along(ctx, "LogSoftmaxV2", self, dim, half_to_float)
