"""Activations and the derivatives the inference and training graphs of torch ask for."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain

aten = torch.ops.aten

plain(
    {
        "Relu": torch.relu,
        "Relu6": F.relu6,
        "Gelu": lambda x: F.gelu(x, approximate="tanh"),
        "GeluV2": (F.gelu, "approximate"),
        "FastGelu": lambda x: x * torch.sigmoid(1.702 * x),
        "Mish": F.mish,
        "HardSwish": F.hardswish,
        "LogSigmoid": F.logsigmoid,
        "Softsign": F.softsign,
        "Softplus": F.softplus,
        "SoftplusV2": (F.softplus, "beta threshold"),
        "Selu": F.selu,
        "Celu": (F.celu, "alpha=alpha1"),
        "Elu": (aten.elu.default, "alpha scale input_scale"),
        "PRelu": lambda x, weight: torch.where(x > 0, x, x * weight),
        "LeakyRelu": (F.leaky_relu, "negative_slope"),
        "HardShrink": (F.hardshrink, "lambd"),
        "SoftShrink": (F.softshrink, "lambd"),
        "GLU": (F.glu, "dim"),
    }
)
plain(
    {
        "SigmoidGrad": lambda y, dy: aten.sigmoid_backward.default(dy, y),
        "TanhGrad": lambda y, dy: aten.tanh_backward.default(dy, y),
        "ReluGrad": lambda gradients, features: torch.where(
            features > 0, gradients, torch.zeros_like(gradients)
        ),
        "LogSigmoidGrad": lambda grads, x: grads * torch.sigmoid(-x),
        "HardSwishGrad": aten.hardswish_backward.default,
        "GeluGrad": lambda dy, x, y: aten.gelu_backward.default(dy, x, approximate="tanh"),
        "GeluGradV2": (aten.gelu_backward.default, "approximate"),
        "LeakyReluGrad": (lambda dy, x, slope: torch.where(x > 0, dy, dy * slope), "slope=negative_slope"),
        "EluGradV2": (
            lambda dy, result, **given: aten.elu_backward.default(dy, self_or_result=result, **given),
            "alpha scale input_scale is_result",
        ),
        "HardtanhGrad": (
            lambda x, dy, low, high: aten.hardtanh_backward.default(dy, x, low, high),
            "low=min_val high=max_val",
        ),
        "ThresholdGradV2D": (aten.threshold_backward.default, "threshold"),
        "GLUGrad": (aten.glu_backward.default, "dim"),
    }
)


@kernel("Swish")
def swish(op: Operator) -> Run:
    """x * sigmoid(scale * x)."""
    scale = op.attr("scale")
    return F.silu if scale == 1.0 else lambda x: x * torch.sigmoid(scale * x)


@kernel("SwishGrad")
def swish_grad(op: Operator) -> Run:
    """Derivative of Swish times grad."""
    scale = op.attr("scale")

    def run(grad: Tensor, x: Tensor, y: Tensor) -> Tensor:
        gate = torch.sigmoid(scale * x)
        result: Tensor = grad * gate * (1 + scale * x * (1 - gate))
        return result

    return run


@kernel("HardSigmoid")
def hard_sigmoid(op: Operator) -> Run:
    """clip(alpha * x + beta, 0, 1)."""
    alpha, beta = op.attr("alpha"), op.attr("beta")
    return F.hardsigmoid if _is_a_sixth(alpha, beta) else lambda x: torch.clamp(alpha * x + beta, 0, 1)


@kernel("HardSigmoidGrad")
def hard_sigmoid_grad(op: Operator) -> Run:
    """alpha * grads inside the slope, zero outside."""
    alpha, beta = op.attr("alpha"), op.attr("beta")
    if _is_a_sixth(alpha, beta):
        backward: Run = aten.hardsigmoid_backward.default
        return backward

    def run(grads: Tensor, x: Tensor) -> Tensor:
        y = alpha * x + beta
        return torch.where((y > 0) & (y < 1), grads * alpha, torch.zeros_like(grads))

    return run


def _is_a_sixth(alpha: float, beta: float) -> bool:
    """Whether the slope is the one that torch computes."""
    return abs(alpha - 1 / 6) < 1e-6 and beta == 0.5


@kernel("ThresholdV2")
def threshold_v2(op: Operator) -> Run:
    """x above the threshold, value elsewhere (NaN stays)."""

    def run(x: Tensor, threshold: Tensor, value: Tensor | None) -> Tensor:
        other = torch.zeros_like(x) if value is None else value
        return torch.where(x <= threshold, other, x)

    return run


@kernel("SoftmaxV2")
def softmax_v2(op: Operator) -> Run:
    """exp(x) over its sum along the axes; half_to_float widens the result."""
    (axis,) = op.ints("axes")
    dtype = torch.float32 if op.attr("half_to_float") else None
    return lambda x: torch.softmax(x, axis, dtype=dtype)


@kernel("LogSoftmaxV2")
def log_softmax_v2(op: Operator) -> Run:
    """Logarithm of the softmax."""
    (axis,) = op.ints("axes")
    return lambda logits: torch.log_softmax(logits, axis)


@kernel("SoftmaxGrad")
def softmax_grad(op: Operator) -> Run:
    """Derivative of the softmax from its result."""
    (axis,) = op.ints("axes")
    return lambda y, dy: aten._softmax_backward_data.default(dy, y, axis, dy.dtype)


@kernel("LogSoftmaxGrad")
def log_softmax_grad(op: Operator) -> Run:
    """Derivative of the log-softmax from its result."""
    (axis,) = op.ints("axis")
    return lambda grad, x: aten._log_softmax_backward_data.default(grad, x, axis, grad.dtype)
