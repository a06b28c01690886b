"""Add and norm on rows, also wanted in 32 bits: it fires, it refuses with the reason, and nothing changes."""

from __future__ import annotations

from typing import Any

import torch

from fused_runs import deep, fused, gamma

npu = torch.ops.npu


def test_add_norm_cast_on_rows_becomes_one_operator_and_views() -> None:
    def f(a: Any, b: Any, g: Any) -> Any:
        y, _, x = npu.npu_add_rms_norm(a, b, g)
        rows = y.view(-1, 64)
        return rows.float(), rows + 1, x

    ops, _ = fused(f, deep, deep + 1, gamma)
    assert "npu.npu_add_rms_norm_cast.default" in ops
    assert "npu.npu_add_rms_norm.default" not in ops


def test_rows_in_32_bits_beside_the_norm_itself_become_one_operator_and_a_view() -> None:
    def f(a: Any, b: Any, g: Any) -> Any:
        y, _, x = npu.npu_add_rms_norm(a, b, g)
        quantised, scale = npu.npu_dynamic_quant(y.view(-1, 64))
        return y.view(-1, 64).float(), quantised, scale, x

    ops, _ = fused(f, deep, deep + 1, gamma)
    assert "npu.npu_add_rms_norm_cast.default" in ops
    assert "npu.npu_dynamic_quant.default" in ops
    assert "npu.npu_add_rms_norm.default" not in ops
