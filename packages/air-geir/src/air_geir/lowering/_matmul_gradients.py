"""Gradients of `matmul` and `linear`, which an NPU keeps as one operator each, written with products of matrices.

Where one operand has no batch, or one of a single matrix, the batch of the other one is rows of a single product:
`w.grad` of a linear layer takes no product for each sequence, and half precision is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]


def _matmul(grad: Tensor, self: Tensor, other: Tensor, mask: Sequence[bool]) -> Gradients:
    """matmul_backward: a vector is a matrix of one row on the left, and of one column on the right."""
    left = self.unsqueeze(0) if self.dim() == 1 else self
    right = other.unsqueeze(1) if other.dim() == 1 else other
    if self.dim() == 1:
        grad = grad.unsqueeze(-1 if other.dim() == 1 else -2)
    if other.dim() == 1:
        grad = grad.unsqueeze(-1)
    of_left = _of_left(grad, left, right) if mask[0] else None
    of_right = _of_left(grad.mT, right.mT, left.mT).mT if mask[1] else None
    return (
        of_left.reshape(self.shape) if of_left is not None and self.dim() == 1 else of_left,
        of_right.reshape(other.shape) if of_right is not None and other.dim() == 1 else of_right,
    )


def _of_left(grad: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The gradient of the left one of two matrices, or batches of them.

    A batch of several matrices that was broadcast is left as it is, as torch_npu leaves it: autograd sums over it.
    """
    if math.prod(left.shape[:-2]) == 1 and grad.dim() > 2:
        columns = grad.movedim(-2, 0).flatten(1)
        factors = right.mT.expand(*grad.shape[:-2], *right.mT.shape[-2:]).flatten(0, -2)
        return (columns @ factors.conj()).reshape(left.shape)
    return grad @ right.mT.conj()


def _linear(self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]) -> Gradients:
    """linear_backward: of the input, the weight and the bias."""
    rows = grad_output.reshape(-1, grad_output.shape[-1])
    return (
        grad_output @ weight.conj() if output_mask[0] else None,
        rows.t() @ self.reshape(-1, self.shape[-1]).conj() if output_mask[1] else None,
        rows.sum(0) if output_mask[2] else None,
    )


MATMUL_GRADIENTS: Final[Mapping[object, Callable[..., Any]]] = {
    torch.ops.aten.matmul_backward.default: _matmul,
    torch.ops.aten.linear_backward.default: _linear,
}
