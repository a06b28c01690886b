"""Add and norm, also wanted in 32 bits: it fires, it refuses with the reason, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fused_runs import fused, gamma, x1, x2

npu = torch.ops.npu


@pytest.mark.parametrize("cast", [lambda y: y.float(), lambda y: npu._npu_dtype_cast(y, torch.float32)])
def test_A38_G05_add_norm_cast_becomes_one_operator(cast: Any) -> None:
    def f(a: Any, b: Any, g: Any) -> Any:
        y, _, x = npu.npu_add_rms_norm(a, b, g)
        return cast(y), y, x

    assert fused(f, x1, x2, gamma)[0] == ["npu.npu_add_rms_norm_cast.default"]
