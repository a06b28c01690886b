"""Add and norm, then a dynamic quantisation: it fires, it refuses with the reason, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fused_runs import deep, fused, gamma, x1, x2

npu = torch.ops.npu


@pytest.mark.parametrize("epsilon", [None, 1e-5])
@pytest.mark.parametrize("sum_used", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_add_norm_dynamic_quant_becomes_one_operator(epsilon: Any, sum_used: bool, dynamic: bool) -> None:
    def f(a: Any, b: Any, g: Any, s: Any) -> Any:
        y, _, x = npu.npu_add_rms_norm(a, b, g, *([] if epsilon is None else [epsilon]))
        q, scale = npu.npu_dynamic_quant(y, smooth_scales=s)
        return (q, scale, x) if sum_used else (q, scale)

    ops, _ = fused(f, x1, x2, gamma, gamma, dynamic=dynamic)
    assert ops == ["npu.npu_add_rms_norm_dynamic_quant.default"]


def test_add_norm_dynamic_quant_without_smooth_scales_becomes_one_operator() -> None:
    ops, _ = fused(lambda a, b, g: npu.npu_dynamic_quant(npu.npu_add_rms_norm(a, b, g)[0]), x1, x2, gamma)
    assert ops == ["npu.npu_add_rms_norm_dynamic_quant.default"]


@pytest.mark.parametrize("dynamic", [False, True])
def test_add_norm_merge_dynamic_quant_becomes_one_operator_and_views(dynamic: bool) -> None:
    def f(a: Any, b: Any, g: Any, s: Any) -> Any:
        y, _, x = npu.npu_add_rms_norm(a, b, g)
        q, scale = npu.npu_dynamic_quant(y.view(y.shape[0] * y.shape[1], y.shape[2]), smooth_scales=s)
        return q, scale.view(-1, 1), x

    ops, _ = fused(f, deep, deep + 1, gamma, gamma, dynamic=dynamic)
    assert ops.count("npu.npu_add_rms_norm_dynamic_quant.default") == 1
    assert "npu.npu_dynamic_quant.default" not in ops


def test_normalised_value_used_elsewhere_is_refused_with_the_reason() -> None:
    def f(a: Any, b: Any, g: Any, s: Any) -> Any:
        y, _, _ = npu.npu_add_rms_norm(a, b, g)
        return *npu.npu_dynamic_quant(y, smooth_scales=s), y + 1

    ops, reasons = fused(f, x1, x2, gamma, gamma)
    assert "npu.npu_dynamic_quant.default" in ops
    assert any("used elsewhere" in r for r in reasons)
