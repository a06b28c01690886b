"""Root-mean-square normalisation, the way every operator of the family does it."""

from __future__ import annotations

from torch import Tensor

from air_fxpasses.npu_cards._types import wide


def normalised(x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """`x` over its root mean square times `gamma`, not rounded, and the inverse of that root."""
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    values = wide(x)
    rstd = (values.square().mean(dims, keepdim=True) + epsilon).rsqrt()
    return values * rstd * wide(gamma), rstd
