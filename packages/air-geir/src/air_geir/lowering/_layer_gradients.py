"""Layers and gradients of layers that torch keeps as one operator: bags of rows, distances, bilinear forms, slopes.

And calls that torch has pieces for, but traces as they are where a device has a kernel for the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
import torch._refs
from torch import Tensor

_SUM, _MEAN, _MAX = range(3)


def _bags(indices: Tensor, offsets: Tensor) -> Tensor:
    """The bag of each index: torch's kernels say it only in some cases."""
    count, places = indices.shape[0], offsets.to(torch.int64)
    begun = places.new_zeros([count + 1]).scatter_add(0, places, torch.ones_like(places))
    return begun.cumsum(0)[:count] - 1


def _embedding_bag(
    grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor,
    num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    """_embedding_bag_backward: of the table. Which count torch's kernel divides by is left to that kernel."""
    if sparse or scale_grad_by_freq:
        return NotImplemented
    table = grad.new_zeros((num_weights, grad.shape[1]))
    if mode == _MAX:
        taken = (bag_size[: grad.shape[0]] > 0).unsqueeze(1)
        places = maximum_indices.to(torch.int64)
        return table.scatter_add(0, torch.where(taken, places, 0), torch.where(taken, grad, 0.0))
    bags = _bags(indices, offsets)
    rows = grad.index_select(0, bags)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if mode == _MEAN:
        rows = rows / bag_size.index_select(0, bags).clamp(min=1).unsqueeze(1)
    if padding_idx >= 0:
        rows = torch.where((indices == padding_idx).unsqueeze(1), 0.0, rows)
    return table.index_add(0, indices, rows)


def _bag_weights(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int,
    padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    """_embedding_bag_per_sample_weights_backward"""
    rows = grad.index_select(0, _bags(indices, offsets))
    found = (rows * weight.index_select(0, indices)).sum(1)
    return torch.where(indices == padding_idx, 0.0, found) if padding_idx >= 0 else found


def _cdist(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """_cdist_backward: of the first points, which a batch of nothing does not widen; zero where two are equal."""
    if 0 in grad.shape:
        return torch.zeros_like(x1, memory_format=torch.contiguous_format)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    grad, distance = grad.unsqueeze(-1), cdist.unsqueeze(-1)
    return _of_distances(grad, difference, distance, p).sum(-2)


def _pdist(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Any:
    """_pdist_backward: each pair of rows moves both."""
    count = self.shape[0]
    if type(count) is not int:
        return NotImplemented
    first, second = torch.triu_indices(count, count, 1, device=self.device).unbind(0)
    difference = self.index_select(0, first) - self.index_select(0, second)
    shares = _of_distances(grad.unsqueeze(-1), difference, pdist.unsqueeze(-1), p)
    return torch.zeros_like(self).index_add(0, first, shares).index_add(0, second, -shares)


def _of_distances(grad: Tensor, difference: Tensor, distance: Tensor, p: float) -> Tensor:
    """How much of the gradient of a distance each coordinate of a difference has; none where two points are equal."""
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        shares = grad * difference.sign()
    elif p == math.inf:
        shares = grad * difference.sign() * (difference.abs() == distance)
    else:
        far = torch.where(distance == 0, 1.0, distance)
        if p == 2:
            shares = grad * difference / far
        else:
            shares = grad * difference.sign() * (difference.abs() / far) ** (p - 1)
        shares = torch.where((distance == 0) | (difference == 0), 0.0, shares)
    return shares


def _distances(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    """cdist, which an NPU keeps as one operator: batches are broadcast."""
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    first, second = (x.expand(*batch, *x.shape[-2:]) for x in (x1, x2))
    return torch.ops.aten._cdist_forward(first, second, p, compute_mode)  # type: ignore[no-any-return]


def _kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """kl_div, which an NPU keeps as one operator."""
    if log_target:
        parts = target.exp() * (target - input)
    else:
        parts = torch.xlogy(target, target) - target * input
    if reduction == 1:
        return parts.mean()
    return parts.sum() if reduction == 2 else parts


def _trilinear(
    i1: Tensor, i2: Tensor, i3: Tensor, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
    sumdim: Sequence[int], unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    """_trilinear: the sum over some axes of a product of three, each of which lacks some axes; `nn.Bilinear`."""
    axes = range(i1.dim() + len(expand1))
    letters = [chr(ord("a") + axis) for axis in axes]
    given = ["".join(letters[a] for a in axes if a not in lacks) for lacks in (expand1, expand2, expand3)]
    wanted = "".join(letters[a] for a in axes if a not in sumdim)
    kept = "".join(
        letters[a] for a in axes if letters[a] in given[2] + wanted and letters[a] in given[0] + given[1]
    )
    pair = torch.einsum(f"{given[0]},{given[1]}->{kept}", i1, i2)
    return torch.einsum(f"{kept},{given[2]}->{wanted}", pair, i3)


def _rrelu(
    self: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: Any = None,
) -> Any:  # fmt: skip
    """rrelu_with_noise_functional: slopes are drawn in training, and are their mean otherwise."""
    if generator is not None:
        return NotImplemented
    if not training:
        return torch.where(self <= 0, self * ((lower + upper) / 2), self), noise.clone()
    slopes = torch.where(self <= 0, torch.ops.aten.uniform(torch.zeros_like(self), lower, upper), 1.0)
    return self * slopes, slopes


_aten = torch.ops.aten
LAYER_GRADIENTS: Final[Mapping[object, Callable[..., Any]]] = {
    _aten._embedding_bag_backward.default: _embedding_bag,
    _aten._embedding_bag_per_sample_weights_backward.default: _bag_weights,
    _aten._cdist_backward.default: _cdist,
    _aten._pdist_backward.default: _pdist,
    _aten._trilinear.default: _trilinear,
    _aten.cdist.default: _distances,
    _aten.kl_div.default: _kl_div,
    _aten.isclose.default: torch._refs.isclose,
    _aten.rrelu_with_noise_functional.default: _rrelu,
}
