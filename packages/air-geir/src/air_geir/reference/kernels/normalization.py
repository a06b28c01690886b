"""Normalisation."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.errors import EngineError
from air_geir.reference.kernels._registry import Operator, Run, kernel, plain


@kernel("LayerNormV4", host=("normalized_shape",))
def layer_norm_v4(op: Operator) -> Run:
    """Over the last axes: y, mean and 1 / standard deviation, the last two in single precision at least."""
    epsilon = op.attr("epsilon")

    def run(
        x: Tensor, normalized_shape: tuple[int, ...], gamma: Tensor | None, beta: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, mean, rstd = torch.native_layer_norm(x, list(normalized_shape), gamma, beta, epsilon)
        statistics = torch.promote_types(x.dtype, torch.float32)
        return y, mean.to(statistics), rstd.to(statistics)

    return run


@kernel("LayerNormGradV3")
def layer_norm_grad_v3(op: Operator) -> Run:
    """Derivatives of LayerNormV4 for x, gamma and beta."""

    def run(
        dy: Tensor, x: Tensor, rstd: Tensor, mean: Tensor, gamma: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        axes = tuple(range(x.dim() - gamma.dim(), x.dim()))
        outer = tuple(range(x.dim() - gamma.dim()))
        normal = (x - mean) * rstd
        scaled = dy * gamma
        centred = scaled - scaled.mean(axes, True) - normal * (scaled * normal).mean(axes, True)
        pd_gamma = (dy * normal).sum(outer) if outer else dy * normal
        return rstd * centred, pd_gamma, dy.sum(outer) if outer else dy.clone()

    return run


def _bn_infer(
    x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor, epsilon: float
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, per channel of images."""
    settings = {value.dtype for value in (scale, offset, mean, variance)}
    if x.dim() != 4 or settings != {torch.float32}:
        raise EngineError(f"BNInfer takes images and float32 settings, not {x.dim()} axes and {settings}")
    return F.batch_norm(x, mean, variance, scale, offset, False, 0, epsilon)


plain({"BNInfer": (_bn_infer, "epsilon")})


@kernel("GroupNorm")
def group_norm(op: Operator) -> Run:
    """Per group of channels: y, mean and variance, in the one type that all three inputs have."""
    groups, epsilon = int(op.attr("num_groups")), op.attr("eps")

    def run(x: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
        if {x.dtype, gamma.dtype, beta.dtype} not in ({torch.float32}, {torch.float16}):
            raise op.refuse(f"it takes float32, or float16: not {x.dtype}, {gamma.dtype} and {beta.dtype}")
        of_group = x.float().unflatten(1, (groups, x.shape[1] // groups)).flatten(2)  # a batch may be empty
        variance, mean = torch.var_mean(of_group, 2, correction=0)
        return F.group_norm(x, groups, gamma, beta, epsilon), mean.to(x.dtype), variance.to(x.dtype)

    return run
