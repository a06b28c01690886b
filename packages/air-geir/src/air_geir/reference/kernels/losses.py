"""Losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain

plain({"MseLoss": (F.mse_loss, "reduction")})


@kernel("NLLLoss")
def nll_loss(op: Operator) -> Run:
    """Weighted negative log-likelihood of the target classes, and the weight that counted."""
    how, ignored = op.attr("reduction"), int(op.attr("ignore_index"))

    def run(x: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        counts = target != ignored
        at = torch.where(counts, target, torch.zeros_like(target)).long()
        scale = torch.ones(x.shape[1], dtype=x.dtype) if weight is None else weight
        share = torch.where(counts, scale[at], 0)
        loss = torch.where(counts, -x.gather(1, at.unsqueeze(1)).squeeze(1) * scale[at], 0)
        if how == "none":
            return loss, torch.zeros((), dtype=x.dtype)
        total = share.sum()
        return (loss.sum() / total if how == "mean" else loss.sum()), total

    return run
