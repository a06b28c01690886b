"""Products of matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain

plain({"Dot": torch.dot, "Einsum": (lambda x, equation: torch.einsum(equation, *x), "equation")})


def _turned(x: Tensor, turn: bool) -> Tensor:
    return x.transpose(-1, -2) if turn else x


@kernel("MatMul", "MatMulV2")
def matmul(op: Operator) -> Run:
    """x1 @ x2, either one transposed first, plus a bias along the last axis."""
    first, second = bool(op.attr("transpose_x1")), bool(op.attr("transpose_x2"))
    plain_product = not first and not second

    def run(x1: Tensor, x2: Tensor, bias: Tensor | None, offset_w: Tensor | None = None) -> Tensor:
        if offset_w is not None:
            raise op.refuse("offset_w is not supported")
        a, b = (x1, x2) if plain_product else (_turned(x1, first), _turned(x2, second))
        return torch.mm(a, b) if bias is None else torch.addmm(bias, a, b)

    return run


@kernel("BatchMatMul", "BatchMatMulV2")
def batch_matmul(op: Operator) -> Run:
    """The product of the last two axes, batch by batch."""
    first, second = bool(op.attr("adj_x1")), bool(op.attr("adj_x2"))

    def run(x1: Tensor, x2: Tensor, bias: Tensor | None = None, offset_w: Tensor | None = None) -> Tensor:
        product = torch.matmul(_turned(x1, first), _turned(x2, second))
        return product if bias is None else product + bias

    return run


@kernel("TransposeBatchMatMul")
def transpose_batch_matmul(op: Operator) -> Run:
    """Axes reordered, multiplied, reordered again; the batches dealt out to a new first axis when asked."""
    before1, before2, after = op.ints("perm_x1"), op.ints("perm_x2"), op.ints("perm_y")
    parts = int(op.attr("batch_split_factor"))

    def run(x1: Tensor, x2: Tensor, bias: Tensor | None, scale: Tensor | None) -> Tensor:
        y = torch.matmul(x1.permute(before1) if before1 else x1, x2.permute(before2) if before2 else x2)
        y = y if bias is None else y + bias
        y = y.permute(after) if after else y
        return y if parts <= 1 else y.reshape(y.shape[0], parts, -1).transpose(0, 1).contiguous()

    return run
