"""Add and norm, then a quantisation by division: it fires, it refuses with the reason, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fused_runs import fused, gamma, scales, x1, x2

npu = torch.ops.npu


@pytest.mark.parametrize("dtype", [torch.qint8, torch.int8])
@pytest.mark.parametrize("zero", [None, torch.ones(64, dtype=torch.int32)])
def test_add_norm_quantize_becomes_one_operator(dtype: Any, zero: Any) -> None:
    def f(a: Any, b: Any, g: Any, s: Any, *z: Any) -> Any:
        y, _, x = npu.npu_add_rms_norm(a, b, g, 1e-5)
        return npu.npu_quantize(y, s, z[0] if z else None, dtype, -1, True), x

    inputs = (x1, x2, gamma, scales) if zero is None else (x1, x2, gamma, scales, zero)
    assert fused(f, *inputs)[0] == ["npu.npu_add_rms_norm_quant.default"]


@pytest.mark.parametrize(
    ("a", "g", "s", "reason"),
    [
        (x1.float(), gamma.float(), scales, "takes 16 bits"),
        (x1[:, :8].contiguous(), gamma[:8], scales[:8], "32 does not divide"),
        (x1, gamma, scales[:1], "the scales are"),
    ],
)
def test_add_norm_quantize_is_refused_with_the_reason(a: Any, g: Any, s: Any, reason: str) -> None:
    def f(a: Any, g: Any, s: Any) -> Any:
        return npu.npu_quantize(npu.npu_add_rms_norm(a, a, g)[0], s, None, torch.qint8, -1, True)

    ops, reasons = fused(lambda *x: (f(*x),), a, g, s)
    assert "npu.npu_quantize.default" in ops
    assert any(reason in r for r in reasons), reasons
