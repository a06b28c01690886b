"""Losses of which torch traces another formula than its kernels compute."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N25_labels_behind_the_end_of_a_row_do_not_count(mode: str) -> None:
    """torch's own trace counts the margin of class 0 for each of them."""
    torch._dynamo.reset()
    x, target = torch.randn(2, 5), torch.tensor([[1, 0, -1, 2, 3], [3, -1, -1, -1, -1]])
    run = torch.compile(F.multilabel_margin_loss, backend="air", options={"mode": mode})
    torch.testing.assert_close(run(x, target), F.multilabel_margin_loss(x, target))
