"""A batched product with axes swapped after it: it fires, it refuses with the reason, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fused_runs import fused, last, left, right


@pytest.mark.parametrize(
    "turn", [lambda x: x.transpose(0, 1), lambda x: x.transpose(1, 0), lambda x: x.permute(1, 0, 2)]
)
def test_bmm_and_transpose_become_one_operator(turn: Any) -> None:
    ops, _ = fused(lambda a, b, c: (turn(torch.bmm(a, b)).reshape(5, 512) @ c,), left, right, last)
    assert "npu.npu_transpose_batchmatmul.default" in ops
    assert "aten.bmm.default" not in ops


def test_bmm_whose_caller_sees_the_strides_is_refused() -> None:
    ops, reasons = fused(lambda a, b: (torch.bmm(a, b).transpose(0, 1),), left, right)
    assert "aten.bmm.default" in ops
    assert any("layout" in r for r in reasons), reasons


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        (torch.randn(4, 5, 96), torch.randn(4, 96, 128), "the depth, 96"),
        (torch.randn(4, 5, 128), torch.randn(4, 128, 100), "columns, 100"),
        (left.double(), right.double(), "does not take torch.float64"),
    ],
)
def test_bmm_is_refused_with_the_reason(a: Any, b: Any, reason: str) -> None:
    ops, reasons = fused(lambda a, b: (torch.bmm(a, b).transpose(0, 1) + 1,), a, b)
    assert "aten.bmm.default" in ops
    assert any(reason in r for r in reasons), reasons
