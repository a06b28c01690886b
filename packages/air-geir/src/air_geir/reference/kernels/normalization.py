"""Normalisation."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

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
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, per channel."""
    return F.batch_norm(x, mean, variance, scale, offset, False, 0, epsilon)


plain({"BNInfer": (_bn_infer, "epsilon")})


@kernel("GroupNormV2")
def group_norm_v2(op: Operator) -> Run:
    """Per group of channels: y, mean and 1 / standard deviation."""
    groups, epsilon = int(op.attr("num_groups")), op.attr("eps")

    def run(x: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
        batch, channels = x.shape[:2]
        rest = x[0, 0].numel() if batch and channels else 0
        out: tuple[Tensor, ...] = torch.native_group_norm(
            x.contiguous(), gamma, beta, batch, channels, rest, groups, epsilon
        )
        return out

    return run
