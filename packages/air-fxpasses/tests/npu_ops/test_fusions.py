"""Fusion patterns of the npu operators: they fire, they refuse with the reason, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from air_fxpasses import EliminateDeadCode, FusePatterns, Pipeline
from air_fxpasses.npu_ops import PATTERNS
from air_fxpasses.testing import copied, functional_graph, run_graph

npu, aten = torch.ops.npu, torch.ops.aten
HALF = torch.float16
x1, x2, gamma = torch.randn(6, 64).to(HALF), torch.randn(6, 64).to(HALF), torch.rand(64).to(HALF)
scales = torch.rand(64) + 0.1
deep = torch.randn(2, 3, 64).to(HALF)


def fused(function: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> tuple[list[str], list[str]]:
    gm = functional_graph(function, *inputs, is_dynamic=dynamic)
    eager = run_graph(gm, copied(inputs))
    passes = [FusePatterns(patterns=PATTERNS), EliminateDeadCode()]
    report = Pipeline(passes).run(gm, inputs)
    for before, after in zip(eager.outputs, run_graph(gm, copied(inputs)).outputs, strict=True):
        torch.testing.assert_close(
            after, before, rtol=2e-2, atol=1.01 if before.dtype == torch.int8 else 1e-2
        )
    ops = [
        str(n.target) for n in gm.graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)
    ]
    return ops, [r.reason for r in report.refusals]


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


@pytest.mark.parametrize("cast", [lambda y: y.float(), lambda y: npu._npu_dtype_cast(y, torch.float32)])
def test_A38_G05_add_norm_cast_becomes_one_operator(cast: Any) -> None:
    def f(a: Any, b: Any, g: Any) -> Any:
        y, _, x = npu.npu_add_rms_norm(a, b, g)
        return cast(y), y, x

    assert fused(f, x1, x2, gamma)[0] == ["npu.npu_add_rms_norm_cast.default"]


def test_add_norm_cast_on_rows_becomes_one_operator_and_views() -> None:
    def f(a: Any, b: Any, g: Any) -> Any:
        y, _, x = npu.npu_add_rms_norm(a, b, g)
        rows = y.view(-1, 64)
        return rows.float(), rows + 1, x

    ops, _ = fused(f, deep, deep + 1, gamma)
    assert "npu.npu_add_rms_norm_cast.default" in ops
    assert "npu.npu_add_rms_norm.default" not in ops


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


def test_normalised_value_used_elsewhere_is_refused_with_the_reason() -> None:
    def f(a: Any, b: Any, g: Any, s: Any) -> Any:
        y, _, _ = npu.npu_add_rms_norm(a, b, g)
        return *npu.npu_dynamic_quant(y, smooth_scales=s), y + 1

    ops, reasons = fused(f, x1, x2, gamma, gamma)
    assert "npu.npu_dynamic_quant.default" in ops
    assert any("used elsewhere" in r for r in reasons)


left, right, last = torch.randn(4, 5, 128), torch.randn(4, 128, 128), torch.randn(512, 8)


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


@pytest.mark.parametrize("spread", [False, True])
def test_transposed_bmm_and_transpose_become_one_operator(spread: bool) -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        turned = a.transpose(0, 1)
        turned = aten.expand.default(turned, [4, 5, 128]) if spread else turned
        return (torch.bmm(turned, b).transpose(0, 1).reshape(5, 512) @ c,)

    ops, _ = fused(f, left.transpose(0, 1).contiguous(), right, last)
    assert "npu.npu_transpose_batchmatmul.default" in ops
    assert "aten.bmm.default" not in ops


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
