"""A batched product with axes swapped before and after: it fires, it refuses with the reason, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fused_runs import fused, last, left, right

aten = torch.ops.aten


@pytest.mark.parametrize("spread", [False, True])
def test_transposed_bmm_and_transpose_become_one_operator(spread: bool) -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        turned = a.transpose(0, 1)
        turned = aten.expand.default(turned, [4, 5, 128]) if spread else turned
        return (torch.bmm(turned, b).transpose(0, 1).reshape(5, 512) @ c,)

    ops, _ = fused(f, left.transpose(0, 1).contiguous(), right, last)
    assert "npu.npu_transpose_batchmatmul.default" in ops
    assert "aten.bmm.default" not in ops
