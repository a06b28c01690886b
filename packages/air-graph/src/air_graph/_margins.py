"""The loss of margins between several labels, of which torch traces another formula than its kernels compute.

A row of labels ends at the first -1. torch's formula counts the margin of class 0 for each label that is missing, so
that every compiler that traces it gets wrong numbers (seen in 2.13); it holds only for rows without an end.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._C import DispatchKey

_MEAN, _SUM = 1, 2


def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """multilabel_margin_loss_forward: the loss, and which classes are labels."""
    values, labels = torch.atleast_2d(input), torch.atleast_2d(target)
    classes = values.shape[1]
    places = torch.arange(classes, device=target.device)
    ends = torch.where(labels == -1, places, classes).amin(-1, keepdim=True)
    named = places < ends
    wanted = torch.where(named, labels, 0)
    is_target = ((wanted.unsqueeze(-1) == places) & named.unsqueeze(-1)).any(1)
    margins = (1 - values.gather(-1, wanted).unsqueeze(-1) + values.unsqueeze(1)).clamp_min(0)
    counted = named.unsqueeze(-1) & ~is_target.unsqueeze(1)
    losses = (torch.where(counted, margins, 0).sum((1, 2)) / classes).reshape(input.shape[:-1])
    if reduction == _MEAN:
        losses = losses.mean()
    elif reduction == _SUM:
        losses = losses.sum()
    return losses, is_target.to(input.dtype).reshape(target.shape)


def mend_margins() -> None:
    """Serves tracing alone: torch asks kernels in Python only while it traces."""
    loss = torch.ops.aten.multilabel_margin_loss_forward.default
    known = loss.py_kernels.get(DispatchKey.Autograd)
    if known is not None and known is not multilabel_margin_loss:
        loss.py_kernels[DispatchKey.Autograd] = multilabel_margin_loss
        loss._dispatch_cache.clear()
