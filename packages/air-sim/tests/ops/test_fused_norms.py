"""Fused normalisation, activation and rotary operators of torch_npu against plain torch compositions on the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

torch_npu = pytest.importorskip("torch_npu", exc_type=ImportError)

Tensors = tuple[torch.Tensor, ...]
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    wide = actual.dtype in (torch.float16, torch.bfloat16)
    tolerance = {"atol": 2e-2, "rtol": 2e-2} if wide else {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(actual.cpu(), expected.to(actual.dtype), check_dtype=False, **tolerance)


def rms(x: torch.Tensor, gamma: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(x.float(), gamma.shape, gamma.float(), eps)


@DTYPES
def test_rms_norm_equals_torch(dtype: torch.dtype) -> None:
    x, gamma = torch.randn(3, 5, 16, dtype=dtype), torch.rand(16, dtype=dtype)
    y, rstd = torch_npu.npu_rms_norm(x.npu(), gamma.npu(), epsilon=1e-5)
    close(y, rms(x, gamma, 1e-5))
    close(rstd, (x.float().pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt())


def test_rms_norm_has_the_gradients_of_torch() -> None:
    x, gamma = torch.randn(4, 16), torch.rand(16)
    grads = []
    for device in ("cpu", "npu"):
        a, b = (t.clone().to(device).requires_grad_() for t in (x, gamma))
        y = (
            torch_npu.npu_rms_norm(a, b, epsilon=1e-6)[0]
            if device == "npu"
            else F.rms_norm(a, (16,), b, 1e-6)
        )
        (y * torch.arange(16.0).to(device)).sum().backward()
        grads.append((a.grad, b.grad))
    for ours, theirs in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("scaled", [True, False])
def test_group_norm_has_the_gradients_of_torch(scaled: bool) -> None:
    given = [torch.randn(2, 6, 5), *((torch.rand(6), torch.rand(6)) if scaled else ())]
    grads = []
    for device in ("cpu", "npu"):
        leaves = [x.clone().to(device).requires_grad_() for x in given]
        y = F.group_norm(leaves[0], 3, *leaves[1:])
        (y * torch.arange(60.0).reshape(y.shape).to(device)).sum().backward()
        grads.append([leaf.grad for leaf in leaves])
    for ours, theirs in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, atol=1e-4, rtol=1e-4)


@DTYPES
def test_add_rms_norm_gives_the_normalised_value_and_the_sum(dtype: torch.dtype) -> None:
    a, b, gamma = torch.randn(4, 8, dtype=dtype), torch.randn(4, 8, dtype=dtype), torch.rand(8, dtype=dtype)
    y, _, x = torch_npu.npu_add_rms_norm(a.npu(), b.npu(), gamma.npu(), 1e-6)
    close(x, a + b)
    close(y, rms(a + b, gamma, 1e-6))


def test_add_rms_norm_v2_writes_into_both_inputs() -> None:
    a, b, gamma = torch.randn(4, 8), torch.randn(4, 8), torch.rand(8)
    first, second = a.npu(), b.npu()
    torch_npu.npu_add_rms_norm_v2(first, second, gamma.npu(), 1e-6)
    close(first, rms(a + b, gamma, 1e-6))
    close(second, a + b)


def test_add_rms_norm_cast_gives_the_value_in_both_widths() -> None:
    a, b, gamma = (torch.randn(4, 8).half(), torch.randn(4, 8).half(), torch.rand(8).half())
    wide, narrow, _, x = torch_npu.npu_add_rms_norm_cast(a.npu(), b.npu(), gamma.npu(), 1e-6)
    assert (wide.dtype, narrow.dtype) == (torch.float32, torch.float16)
    torch.testing.assert_close(wide.cpu(), rms(a + b, gamma, 1e-6), atol=2e-2, rtol=2e-2)
    close(narrow, rms(a + b, gamma, 1e-6))
    close(x, a + b)


@DTYPES
def test_swiglu_equals_silu_times_the_other_half(dtype: torch.dtype) -> None:
    x = torch.randn(3, 16, dtype=dtype)
    gate, linear = x.float().chunk(2, -1)
    close(torch_npu.npu_swiglu(x.npu(), dim=-1), F.silu(gate) * linear)


def test_swiglu_has_the_gradient_of_torch() -> None:
    x = torch.randn(3, 16)
    ours, theirs = x.npu().requires_grad_(), x.clone().requires_grad_()
    torch_npu.npu_swiglu(ours, dim=-1).pow(2).sum().backward()
    gate, linear = theirs.chunk(2, -1)
    (F.silu(gate) * linear).pow(2).sum().backward()
    assert theirs.grad is not None
    close(ours.grad, theirs.grad)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def rotate_pairs(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


@pytest.mark.parametrize(("mode", "turn"), [("half", rotate_half), ("interleave", rotate_pairs)])
def test_rotary_mul_turns_halves_or_pairs(mode: str, turn: object) -> None:
    x, cos, sin = torch.randn(2, 6, 3, 64), torch.randn(1, 6, 1, 64), torch.randn(1, 6, 1, 64)
    assert callable(turn)
    close(torch_npu.npu_rotary_mul(x.npu(), cos.npu(), sin.npu(), mode), x * cos + turn(x) * sin)


def test_rotary_mul_has_the_gradients_of_torch() -> None:
    x, cos, sin = torch.randn(2, 6, 3, 64), torch.randn(1, 6, 1, 64), torch.randn(1, 6, 1, 64)
    ours = [t.npu().requires_grad_() for t in (x, cos, sin)]
    theirs = [t.clone().requires_grad_() for t in (x, cos, sin)]
    torch_npu.npu_rotary_mul(*ours).pow(2).sum().backward()
    (theirs[0] * theirs[1] + rotate_half(theirs[0]) * theirs[2]).pow(2).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, atol=1e-3, rtol=1e-3)


def test_apply_rotary_pos_emb_turns_query_and_key() -> None:
    q, k = torch.randn(2, 5, 4, 128).half(), torch.randn(2, 5, 2, 128).half()
    cos, sin = torch.randn(2, 5, 1, 128).half(), torch.randn(2, 5, 1, 128).half()
    ours = torch_npu.npu_apply_rotary_pos_emb(q.npu(), k.npu(), cos.npu(), sin.npu(), "BSND")
    for actual, x in zip(ours, (q, k), strict=True):
        close(actual, x.float() * cos.float() + rotate_half(x.float()) * sin.float())


def test_interleave_rope_sorts_pairs_into_halves_first() -> None:
    x, cos, sin = (
        torch.randn(2, 4, 3, 64).half(),
        torch.randn(2, 1, 3, 64).half(),
        torch.randn(2, 1, 3, 64).half(),
    )
    wide = torch.cat((x[..., ::2], x[..., 1::2]), -1).float()
    close(
        torch_npu.npu_interleave_rope(x.npu(), cos.npu(), sin.npu()),
        wide * cos.float() + rotate_half(wide) * sin.float(),
    )
