"""What double precision excuses, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from zoo import faulty_models, judging, rounding

EXACT = {"a": torch.tensor([1.0, -2.0], dtype=torch.float64), "n": torch.tensor([3])}


def moved(by: float, **others: Any) -> dict[str, Any]:
    return {"a": torch.tensor([1.0 + by, -2.0]), "n": torch.tensor([3])} | others


def said(eager: Any, other: Any) -> str | None:
    return rounding.explained(EXACT, eager, other, judging._off, 1e-4)


def test_what_is_as_far_from_double_precision_as_eager_is_differs_by_rounding() -> None:
    assert said(moved(1e-3), moved(-1e-3)) == (
        "by rounding: eager is 0.0005 of the largest value from double precision, this 0.0005"
    )
    assert said(moved(0.0), moved(1e-4)) is not None


@pytest.mark.parametrize(
    ("eager", "other"),
    [
        (moved(1e-4), moved(1e-3)),
        (moved(0.5), moved(-0.5)),
        (moved(1e-3), moved(1e-3, n=torch.tensor([4]))),
        (moved(1e-3), moved(1e-3, a=torch.tensor([1.0, torch.nan]))),
        (moved(1e-3), moved(1e-3, a=torch.tensor([1.0, -2.0], dtype=torch.float64))),
        (moved(1e-3), moved(1e-3, more=1)),
    ],
    ids=["further", "eager is far off", "an integer", "not finite", "another type", "another structure"],
)
def test_rounding_is_no_excuse_for(eager: Any, other: Any) -> None:
    assert said(eager, other) is None


def test_a_model_in_double_precision_gets_the_same_numbers() -> None:
    made = faulty_models.make("learning")
    twin = rounding.doubled(made)
    assert next(twin.model.parameters()).dtype is torch.float64
    assert next(made.model.parameters()).dtype is torch.float32
    assert torch.equal(twin.drawn(5)["x"], made.drawn(5)["x"].double())
