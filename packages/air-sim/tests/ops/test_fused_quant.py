"""Quantisation operators of torch_npu against the formulas of their documentation, in plain torch."""

from __future__ import annotations

import pytest
import torch

torch_npu = pytest.importorskip("torch_npu", exc_type=ImportError)


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-2) -> None:
    torch.testing.assert_close(actual.cpu().float(), expected.float(), atol=tolerance, rtol=tolerance)


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x.round().clamp(-128, 127)


def test_dynamic_quant_scales_each_row_by_its_largest_value() -> None:
    x = torch.randn(5, 16).half()
    y, scale = torch_npu.npu_dynamic_quant(x.npu())
    expected = x.float().abs().amax(-1) / 127
    assert y.dtype == torch.int8
    close(scale, expected, 1e-5)
    assert torch.equal(y.cpu().float(), rounded(x.float() / expected[:, None]))


def test_dynamic_quant_smooths_the_rows_of_each_group() -> None:
    x, smooth = torch.randn(5, 16).half(), torch.rand(2, 16).half()
    groups = torch.tensor([2, 5], dtype=torch.int32)
    _, scale = torch_npu.npu_dynamic_quant(x.npu(), smooth_scales=smooth.npu(), group_index=groups.npu())
    rows = smooth.float()[[0, 0, 1, 1, 1]]
    close(scale, (x.float() * rows).abs().amax(-1) / 127, 1e-4)


def test_quantize_divides_by_scales_along_an_axis() -> None:
    x, scale = torch.randn(4, 6) * 3, torch.rand(6) + 0.1
    zero = torch.randint(-5, 5, (6,), dtype=torch.int32)
    y = torch_npu.npu_quantize(x.npu(), scale.npu(), zero.npu(), torch.qint8, axis=1)
    assert torch.equal(
        y.cpu().int_repr() if y.is_quantized else y.cpu(), rounded(x / scale + zero).to(torch.int8)
    )


def test_quantize_multiplies_when_told_to() -> None:
    x, scale, zero = torch.randn(4, 32) * 3, torch.rand(32) * 4, torch.randn(32)
    y = torch_npu.npu_quantize(x.npu(), scale.npu(), zero.npu(), torch.qint8, axis=-1, div_mode=False)
    assert torch.equal(
        y.cpu().int_repr() if y.is_quantized else y.cpu(), rounded(x * scale + zero).to(torch.int8)
    )


@pytest.mark.parametrize("per_token", [False, True])
def test_quant_matmul_scales_columns_and_rows(per_token: bool) -> None:
    x, w = (
        torch.randint(-20, 20, (6, 32), dtype=torch.int8),
        torch.randint(-20, 20, (32, 16), dtype=torch.int8),
    )
    scale, rows = torch.rand(16), torch.rand(6)
    extra = {"pertoken_scale": rows.npu()} if per_token else {}
    out = torch_npu.npu_quant_matmul(
        x.npu(), w.npu(), scale.bfloat16().npu(), output_dtype=torch.bfloat16, **extra
    )
    expected = (x.int() @ w.int()).float() * scale.bfloat16().float()
    close(out, expected * rows[:, None] if per_token else expected, 3e-2)


@pytest.mark.parametrize("group", [0, 32])
def test_weight_quant_matmul_widens_the_weight_first(group: int) -> None:
    x, w = torch.randn(5, 64).half(), torch.randint(-8, 8, (64, 16), dtype=torch.int8)
    rows = 2 if group else 1
    scale, offset = torch.rand(rows, 16).half() * 0.1, torch.randn(rows, 16).half()
    out = torch_npu.npu_weight_quant_batchmatmul(
        x.npu(), w.npu(), scale.npu(), antiquant_offset=offset.npu(), antiquant_group_size=group
    )
    spread = [t.float().repeat_interleave(64 // rows, 0) for t in (scale, offset)]
    close(out, x.float() @ ((w.float() + spread[1]) * spread[0]), 3e-2)


def test_add_rms_norm_quant_rounds_the_normalised_sum() -> None:
    a, b, gamma = torch.randn(4, 16).half(), torch.randn(4, 16).half(), torch.rand(16).half()
    scale = torch.rand(16) + 0.05
    y, _, x = torch_npu.npu_add_rms_norm_quant(a.npu(), b.npu(), gamma.npu(), scale.npu(), None)
    total = (a + b).float()
    normed = total * (total.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * gamma.float()
    close(x, total)
    assert (y.cpu().float() - rounded(normed / scale)).abs().max() <= 1


@pytest.mark.parametrize("mask", [[True, False], [False, True], [True, True]])
def test_add_rms_norm_dynamic_quant_gives_what_its_mask_says(mask: list[bool]) -> None:
    x, gamma = torch.randn(2, 3, 32).half(), torch.randn(32).half()
    smooth = torch.rand(32).half()
    given = {"smooth_scale1": gamma.npu(), "smooth_scale2": smooth.npu()}
    y1, y2, *_ = torch_npu.npu_add_rms_norm_dynamic_quant(
        x.npu(), x.npu(), gamma.npu(), **given, output_mask=mask
    )
    both = torch_npu.npu_add_rms_norm_dynamic_quant(x.npu(), x.npu(), gamma.npu(), **given)
    for wanted, mine, theirs in zip(mask, (y1, y2), both, strict=False):
        assert torch.equal(mine.cpu(), theirs.cpu()) if wanted else mine.dim() == 0


def test_add_rms_norm_dynamic_quant_finds_a_scale_per_row() -> None:
    a, b, gamma = torch.randn(4, 16).half(), torch.randn(4, 16).half(), torch.rand(16).half()
    smooth = torch.rand(16).half()
    y, _, x, scale, _ = torch_npu.npu_add_rms_norm_dynamic_quant(
        a.npu(), b.npu(), gamma.npu(), smooth_scale1=smooth.npu()
    )
    total = (a + b).float()
    normed = total * (total.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * gamma.float() * smooth.float()
    close(x, total)
    close(scale, normed.abs().amax(-1) / 127, 1e-3)
    assert (y.cpu().float() - rounded(normed / (normed.abs().amax(-1, keepdim=True) / 127))).abs().max() <= 1


def test_transpose_batchmatmul_permutes_operands_and_result() -> None:
    x, w = torch.randn(5, 3, 64).half(), torch.randn(3, 64, 128).half()
    out = torch_npu.npu_transpose_batchmatmul(
        x.npu(), w.npu(), perm_x1=[1, 0, 2], perm_x2=[0, 1, 2], perm_y=[1, 0, 2]
    )
    close(out, torch.bmm(x.float().transpose(0, 1), w.float()).transpose(0, 1), 5e-2)
