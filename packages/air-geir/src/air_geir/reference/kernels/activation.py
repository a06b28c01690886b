"""Activations and the derivatives the inference and training graphs of torch ask for."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain

plain(
    {
        "Relu": torch.relu,
        "Relu6": F.relu6,
        "Gelu": lambda x: F.gelu(x, approximate="tanh"),
        "FastGelu": lambda x: x * torch.sigmoid(1.702 * x),
        "Mish": F.mish,
        "HardSwish": F.hardswish,
        "LogSigmoid": F.logsigmoid,
        "Softsign": F.softsign,
        "Softplus": F.softplus,
        "Selu": F.selu,
        "PRelu": lambda x, weight: torch.where(x > 0, x, x * weight),
        "SigmoidGrad": lambda y, dy: torch.ops.aten.sigmoid_backward.default(dy, y),
        "TanhGrad": lambda y, dy: torch.ops.aten.tanh_backward.default(dy, y),
        "ReluGrad": lambda gradients, features: torch.where(
            features > 0, gradients, torch.zeros_like(gradients)
        ),
        "LogSigmoidGrad": lambda grads, x: grads * torch.sigmoid(-x),
        "HardSwishGrad": lambda grad, x: torch.ops.aten.hardswish_backward.default(grad, x),
        "GeluGrad": lambda dy, x, y: torch.ops.aten.gelu_backward.default(dy, x, approximate="tanh"),
    }
)


@kernel("Swish")
def swish(op: Operator) -> Run:
    """x * sigmoid(scale * x)."""
    scale = op.attr("scale")
    return F.silu if scale == 1.0 else lambda x: x * torch.sigmoid(scale * x)


@kernel("GeluV2")
def gelu_v2(op: Operator) -> Run:
    """Gaussian error linear unit, exact or by the tanh formula."""
    approximate = _text(op.attr("approximate"))
    return lambda x: F.gelu(x, approximate=approximate)


@kernel("GeluGradV2")
def gelu_grad_v2(op: Operator) -> Run:
    """Derivative of GeluV2 times dy."""
    approximate = _text(op.attr("approximate"))
    return lambda dy, x: torch.ops.aten.gelu_backward.default(dy, x, approximate=approximate)


@kernel("SwishGrad")
def swish_grad(op: Operator) -> Run:
    """Derivative of Swish times grad."""
    scale = op.attr("scale")

    def run(grad: Tensor, x: Tensor, y: Tensor) -> Tensor:
        gate = torch.sigmoid(scale * x)
        result: Tensor = grad * gate * (1 + scale * x * (1 - gate))
        return result

    return run


@kernel("LeakyRelu")
def leaky_relu(op: Operator) -> Run:
    """x where positive, slope * x elsewhere."""
    slope = op.attr("negative_slope")
    return lambda x: F.leaky_relu(x, slope)


@kernel("LeakyReluGrad")
def leaky_relu_grad(op: Operator) -> Run:
    """Derivative of LeakyRelu times gradients."""
    slope = op.attr("negative_slope")
    return lambda gradients, features: torch.where(features > 0, gradients, gradients * slope)


@kernel("Elu")
def elu(op: Operator) -> Run:
    """scale * x where positive, alpha * scale * expm1(input_scale * x) elsewhere."""
    alpha, scale, inner = op.attr("alpha"), op.attr("scale"), op.attr("input_scale")
    return lambda x: torch.ops.aten.elu.default(x, alpha, scale, inner)


@kernel("EluGradV2")
def elu_grad(op: Operator) -> Run:
    """Derivative of Elu times grads, from its input or (is_result) its output."""
    alpha, scale, inner = op.attr("alpha"), op.attr("scale"), op.attr("input_scale")
    is_result = bool(op.attr("is_result"))
    backward = torch.ops.aten.elu_backward.default
    return lambda grads, activations: backward(grads, alpha, scale, inner, is_result, activations)


@kernel("HardSigmoid")
def hard_sigmoid(op: Operator) -> Run:
    """clip(alpha * x + beta, 0, 1)."""
    alpha, beta = op.attr("alpha"), op.attr("beta")
    sixth = abs(alpha - 1 / 6) < 1e-6 and beta == 0.5
    return F.hardsigmoid if sixth else lambda x: torch.clamp(alpha * x + beta, 0, 1)


@kernel("HardSigmoidGrad")
def hard_sigmoid_grad(op: Operator) -> Run:
    """alpha * grads inside the slope, zero outside."""
    alpha, beta = op.attr("alpha"), op.attr("beta")
    sixth = abs(alpha - 1 / 6) < 1e-6 and beta == 0.5

    def run(grads: Tensor, x: Tensor) -> Tensor:
        if sixth:
            result: Tensor = torch.ops.aten.hardsigmoid_backward.default(grads, x)
            return result
        y = alpha * x + beta
        return torch.where((y > 0) & (y < 1), grads * alpha, torch.zeros_like(grads))

    return run


@kernel("HardtanhGrad")
def hardtanh_grad(op: Operator) -> Run:
    """grad where the input lies strictly between the bounds, or is not a number."""
    low, high = op.attr("min_val"), op.attr("max_val")
    return lambda result, grad: torch.ops.aten.hardtanh_backward.default(grad, result, low, high)


@kernel("HardShrink")
def hard_shrink(op: Operator) -> Run:
    """x outside [-lambd, lambd], zero inside."""
    lambd = op.attr("lambd")
    return lambda x: F.hardshrink(x, lambd)


@kernel("SoftShrink")
def soft_shrink(op: Operator) -> Run:
    """Moves x towards zero by lambd."""
    lambd = op.attr("lambd")
    return lambda x: F.softshrink(x, lambd)


@kernel("SoftplusV2")
def softplus_v2(op: Operator) -> Run:
    """log(1 + exp(beta * x)) / beta, linear above the threshold."""
    beta, threshold = op.attr("beta"), op.attr("threshold")
    return lambda x: F.softplus(x, beta, threshold)


@kernel("Celu")
def celu(op: Operator) -> Run:
    """Continuously differentiable Elu."""
    alpha = op.attr("alpha1")
    return lambda x: F.celu(x, alpha)


@kernel("ThresholdV2")
def threshold_v2(op: Operator) -> Run:
    """x above the threshold, value elsewhere (NaN stays)."""

    def run(x: Tensor, threshold: Tensor, value: Tensor | None) -> Tensor:
        other = torch.zeros_like(x) if value is None else value
        return torch.where(x <= threshold, other, x)

    return run


@kernel("ThresholdGradV2D")
def threshold_grad(op: Operator) -> Run:
    """gradients where the feature is above the threshold."""
    threshold = op.attr("threshold")
    return lambda gradients, features: torch.ops.aten.threshold_backward.default(
        gradients, features, threshold
    )


@kernel("GLU")
def glu(op: Operator) -> Run:
    """First half times the sigmoid of the second half."""
    dim = op.attr("dim")
    return lambda x: F.glu(x, dim)


@kernel("GLUGrad")
def glu_grad(op: Operator) -> Run:
    """Derivative of GLU times y_grad."""
    dim = op.attr("dim")
    return lambda y_grad, x: torch.ops.aten.glu_backward.default(y_grad, x, dim)


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
    return lambda y, dy: torch.ops.aten._softmax_backward_data.default(dy, y, axis, dy.dtype)


@kernel("LogSoftmaxGrad")
def log_softmax_grad(op: Operator) -> Run:
    """Derivative of the log-softmax from its result."""
    (axis,) = op.ints("axis")
    return lambda grad, x: torch.ops.aten._log_softmax_backward_data.default(grad, x, axis, grad.dtype)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
