"""The fused attention operators against scaled_dot_product_attention of the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

torch_npu = pytest.importorskip("torch_npu", exc_type=ImportError)

B, N, S, D = 2, 4, 6, 16


def bnsd(heads: int = N, length: int = S) -> torch.Tensor:
    return torch.randn(B, heads, length, D)


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(1, 2).contiguous()
    if layout == "BSH":
        return x.transpose(1, 2).flatten(2)
    return x.permute(2, 0, 1, 3).flatten(2)


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Mask: true is hidden."""
    groups = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else ~mask, scale=0.25)


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.cpu(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
@pytest.mark.parametrize("key_heads", [4, 2])
def test_fusion_attention_equals_sdpa_in_every_layout(layout: str, key_heads: int) -> None:
    q, k, v = bnsd(), bnsd(key_heads), bnsd(key_heads)
    out = torch_npu.npu_fusion_attention(
        *(laid_out(t, layout).npu() for t in (q, k, v)), N, layout, scale=0.25
    )[0]
    close(out, laid_out(sdpa(q, k, v), layout))


@pytest.mark.parametrize("sparse_mode", [0, 1, 2, 3])
def test_fusion_attention_hides_what_the_mask_and_the_mode_hide(sparse_mode: int) -> None:
    q, k, v = bnsd(), bnsd(length=S + 2), bnsd(length=S + 2)
    column, row = torch.arange(S + 2), torch.arange(S)[:, None]
    hidden = column > row + (2 if sparse_mode == 3 else 0)
    compressed = torch.triu(torch.ones(2048, 2048, dtype=torch.bool), 1)
    mask = hidden if sparse_mode < 2 else compressed
    out = torch_npu.npu_fusion_attention(
        q.npu(), k.npu(), v.npu(), N, "BNSD", scale=0.25, atten_mask=mask.npu(), sparse_mode=sparse_mode
    )[0]
    close(out, sdpa(q, k, v, hidden))


def test_fusion_attention_has_the_gradients_of_sdpa() -> None:
    inputs = [bnsd(), bnsd(2), bnsd(2)]
    ours = [t.npu().requires_grad_() for t in inputs]
    theirs = [t.clone().requires_grad_() for t in inputs]
    torch_npu.npu_fusion_attention(*ours, N, "BNSD", scale=0.25)[0].pow(2).sum().backward()
    sdpa(*theirs).pow(2).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        close(a.grad, b.grad)


def test_packed_sequences_attend_within_themselves() -> None:
    ends = [3, 8, 10]
    q, k, v = torch.randn(10, N, D), torch.randn(10, N, D), torch.randn(10, N, D)
    out = torch_npu.npu_fusion_attention(
        q.npu(), k.npu(), v.npu(), N, "TND", scale=0.25, actual_seq_qlen=ends, actual_seq_kvlen=ends
    )[0]
    start = 0
    for end in ends:
        one = [t[start:end].transpose(0, 1)[None] for t in (q, k, v)]
        close(out[start:end], sdpa(*one)[0].transpose(0, 1))
        start = end


def test_scaled_dot_product_attention_trains_on_the_device() -> None:
    inputs = [bnsd(), bnsd(), bnsd()]
    ours = [t.npu().requires_grad_() for t in inputs]
    theirs = [t.clone().requires_grad_() for t in inputs]
    F.scaled_dot_product_attention(*ours, is_causal=True).pow(2).sum().backward()
    F.scaled_dot_product_attention(*theirs, is_causal=True).pow(2).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        close(a.grad, b.grad)


def half(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(t.half().npu() for t in tensors)


def close_half(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.cpu().float(), expected, atol=5e-3, rtol=5e-3)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH"])
def test_fused_infer_attention_equals_sdpa(layout: str) -> None:
    q, k, v = (t.half().float() for t in (bnsd(), bnsd(2), bnsd(2)))
    out, lse = torch_npu.npu_fused_infer_attention_score(
        *half(*(laid_out(t, layout) for t in (q, k, v))),
        num_heads=N, num_key_value_heads=2, input_layout=layout, scale=0.25, softmax_lse_flag=True,
    )  # fmt: skip
    close_half(out, laid_out(sdpa(q, k, v), layout))
    scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) * 0.25
    torch.testing.assert_close(lse.cpu(), scores.logsumexp(-1, keepdim=True), atol=5e-3, rtol=5e-3)


def test_fused_infer_attention_reads_only_the_given_lengths() -> None:
    q, k, v = (t.half().float() for t in (bnsd(length=1), bnsd(length=8), bnsd(length=8)))
    out = torch_npu.npu_fused_infer_attention_score(
        *half(q, k, v), num_heads=N, input_layout="BNSD", scale=0.25, actual_seq_lengths_kv=[5, 8]
    )[0]
    hidden = torch.arange(8)[None, None, None] >= torch.tensor([5, 8])[:, None, None, None]
    close_half(out, sdpa(q, k, v, hidden))


def test_fused_infer_attention_of_one_query_is_told_no_lengths_of_queries() -> None:
    q, k, v = (t.half().float() for t in (bnsd(length=1), bnsd(length=8), bnsd(length=8)))
    out, _ = torch_npu.npu_fused_infer_attention_score(
        *half(q, k, v), num_heads=N, input_layout="BNSD", scale=0.25, actual_seq_lengths=[37, 0]
    )
    close_half(out, sdpa(q, k, v))


def test_fused_infer_attention_follows_the_block_table() -> None:
    size, lengths = 16, [5, 20]
    q = torch.randn(B, 1, N * D).half().float()
    k, v = (torch.randn(4, size, N * D).half().float() for _ in range(2))
    table = torch.tensor([[2, 0], [3, 1]], dtype=torch.int32)
    out = torch_npu.npu_fused_infer_attention_score(
        *half(q, k, v), num_heads=N, input_layout="BSH", scale=0.25, block_table=table.npu(), block_size=size,
        actual_seq_lengths_kv=lengths,
    )[0]  # fmt: skip
    for b, length in enumerate(lengths):
        keys, values = (t[table[b].long()].reshape(-1, N, D)[:length].transpose(0, 1)[None] for t in (k, v))
        expected = sdpa(q[b].view(1, 1, N, D).transpose(1, 2), keys, values)
        close_half(out[b : b + 1], laid_out(expected, "BSH"))


def test_prompt_and_incremental_attention_equal_sdpa() -> None:
    q, k, v = (t.half().float() for t in (bnsd(), bnsd(), bnsd()))
    out = torch_npu.npu_prompt_flash_attention(
        *half(q, k, v), num_heads=N, input_layout="BNSD", scale_value=0.25
    )
    close_half(out, sdpa(q, k, v))
    step = q[:, :, -1:]
    out = torch_npu.npu_incre_flash_attention(
        *half(step, k, v), num_heads=N, input_layout="BNSD", scale_value=0.25
    )
    close_half(out, sdpa(step, k, v))
