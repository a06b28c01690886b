"""The loss of margins between several labels is traced as torch's kernel computes it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from air_graph import mend_margins, multilabel_margin_loss

ROWS = {
    "with an end": [[1, 0, -1, 2, 3], [3, -1, -1, -1, -1]],
    "of no label": [[-1, 0, 1, 2, 3], [2, 1, -1, -1, -1]],
    "full": [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]],
    "named twice": [[2, 2, -1, -1, -1], [1, 4, 1, -1, 0]],
    "alone": [1, 3, -1, 0, 0],
}
REDUCTIONS = ("none", "mean", "sum")


def operands(rows: str) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    target = torch.tensor(ROWS[rows])
    return torch.randn(target.shape), target


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("rows", ROWS)
def test_the_formula_is_that_of_the_kernel(rows: str, reduction: int) -> None:
    given = operands(rows)
    expected = torch.ops.aten.multilabel_margin_loss_forward(*given, reduction)
    torch.testing.assert_close(multilabel_margin_loss(*given, reduction), tuple(expected))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("rows", ROWS)
def test_what_is_traced_trains_as_in_eager(rows: str, reduction: str) -> None:
    mend_margins()

    def loss(x: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(x, target, reduction=reduction)

    def stepped(step: object) -> tuple[Tensor, Tensor | None]:
        x, target = operands(rows)
        x.requires_grad_()
        result = step(x, target)  # type: ignore[operator]
        result.sum().backward()
        return result.detach(), x.grad

    torch._dynamo.reset()
    torch.testing.assert_close(stepped(torch.compile(loss, backend="aot_eager")), stepped(loss))
