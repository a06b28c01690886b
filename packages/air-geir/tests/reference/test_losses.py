"""Losses where a class is impossible."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from air_geir.proof import check_call


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_an_ignored_row_adds_nothing_where_its_first_class_is_impossible(reduction: str) -> None:
    scores = torch.randn(4, 5)
    scores[:, 0] = float("-inf")
    target, weight = torch.tensor([1, -100, 3, 2]), torch.tensor([0.0, 2.0, 1.0, 0.5, 3.0])
    check_call(lambda x, t: functional.cross_entropy(x, t, reduction=reduction), (scores, target), {})
    check_call(
        lambda x, t, w: functional.nll_loss(x, t, w, reduction=reduction), (scores, target, weight), {}
    )


def test_an_impossible_class_of_weight_zero_is_no_number_as_in_eager() -> None:
    scores = torch.randn(2, 3)
    scores[:, 0] = float("-inf")
    weight = torch.tensor([0.0, 1.0, 1.0])
    run = check_call(functional.nll_loss, (scores, torch.tensor([0, 1]), weight), {})
    assert run(scores, torch.tensor([0, 1]), weight)[0].isnan()
