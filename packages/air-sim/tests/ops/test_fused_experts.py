"""Gating, routing and grouped products against plain torch, and writes into caches."""

from __future__ import annotations

import pytest
import torch

torch_npu = pytest.importorskip("torch_npu", exc_type=ImportError)

ROWS, K, EXPERTS, HIDDEN = 7, 2, 8, 16


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(actual.cpu().float(), expected.float(), atol=tolerance, rtol=tolerance)


def test_gating_softmax_chooses_the_largest_probabilities() -> None:
    x = torch.randn(ROWS, EXPERTS)
    y, experts, rows = torch_npu.npu_moe_gating_top_k_softmax(x.npu(), None, k=K)
    values, index = x.softmax(-1).topk(K, -1)
    close(y, values)
    assert torch.equal(experts.cpu(), index.int())
    assert torch.equal(rows.cpu(), torch.arange(ROWS * K, dtype=torch.int32).view(K, ROWS).t())


def test_gating_top_k_stays_within_the_best_groups() -> None:
    x, bias = torch.randn(ROWS, EXPERTS), torch.randn(EXPERTS)
    y, experts, _ = torch_npu.npu_moe_gating_top_k(
        x.npu(),
        K,
        bias=bias.npu(),
        k_group=1,
        group_count=2,
        group_select_mode=1,
        norm_type=1,
        routed_scaling_factor=2.5,
    )
    scores = x.sigmoid() + bias
    groups = scores.view(ROWS, 2, -1).topk(2, -1)[0].sum(-1)
    outside = (torch.arange(EXPERTS) // (EXPERTS // 2))[None] != groups.argmax(-1, keepdim=True)
    index = scores.masked_fill(outside, -torch.inf).topk(K, -1)[1]
    chosen = x.sigmoid().gather(1, index)
    assert torch.equal(experts.cpu(), index.int())
    close(y, chosen / chosen.sum(-1, keepdim=True) * 2.5)


def test_routing_there_and_back_weighs_each_token_by_its_scales() -> None:
    x, expert = (
        torch.randn(ROWS, HIDDEN),
        torch.stack([torch.randperm(EXPERTS)[:K] for _ in range(ROWS)]).int(),
    )
    scales = torch.rand(ROWS, K)
    expanded, place, counts, _ = torch_npu.npu_moe_init_routing_v2(
        x.npu(), expert.npu(), active_num=ROWS * K, expert_num=EXPERTS, expert_tokens_num_type=1,
        expert_tokens_num_flag=True, quant_mode=-1, active_expert_range=[0, EXPERTS], row_idx_type=0,
    )  # fmt: skip
    order = expert.flatten().argsort(stable=True)
    close(expanded, x[order // K])
    assert torch.equal(counts.cpu(), torch.bincount(expert.flatten(), minlength=EXPERTS))
    assert torch.equal(place.cpu().long(), order.argsort())
    out = torch_npu.npu_moe_finalize_routing(
        expanded, None, None, None, scales.npu(), place, expert.npu(), drop_pad_mode=2
    )
    close(out, x * scales.sum(-1, keepdim=True))


def test_token_permute_and_unpermute_are_inverse_and_have_gradients() -> None:
    x = torch.randn(ROWS, HIDDEN).bfloat16()
    indices = torch.stack([torch.randperm(EXPERTS)[:K] for _ in range(ROWS)]).int()
    probs = torch.rand(ROWS, K).bfloat16()
    tokens = x.npu().requires_grad_()
    permuted, order = torch_npu.npu_moe_token_permute(tokens, indices.npu())
    close(permuted, x[indices.flatten().argsort(stable=True) // K])
    back = torch_npu.npu_moe_token_unpermute(permuted, order, probs=probs.npu())
    close(back, x.float() * probs.float().sum(-1, keepdim=True), 5e-2)
    back.sum().backward()
    close(tokens.grad, probs.float().sum(-1, keepdim=True).expand(ROWS, HIDDEN), 5e-2)


@pytest.mark.parametrize("list_type", [0, 1])
def test_grouped_matmul_multiplies_each_group_by_its_weight(list_type: int) -> None:
    x, w = torch.randn(9, HIDDEN).half(), torch.randn(3, HIDDEN, 12).half()
    sizes = [2, 4, 3]
    groups = torch.tensor(sizes if list_type else [2, 6, 9])
    out = torch_npu.npu_grouped_matmul(
        [x.npu()], [w.npu()], group_list=groups.npu(), split_item=3, group_type=0, group_list_type=list_type
    )[0]
    expected = torch.cat([part.float() @ w[i].float() for i, part in enumerate(x.split(sizes))])
    close(out, expected, 3e-2)


def test_top_k_top_p_keeps_the_likely_tokens() -> None:
    logits = torch.randn(3, 20)
    p, k = torch.tensor([0.9, 0.5, 0.7]), torch.tensor([5, 10, 20], dtype=torch.int32)
    out = torch_npu.npu_top_k_top_p(logits.npu(), p.npu(), k.npu()).cpu()
    for row, (limit, count) in enumerate(zip(p, k, strict=True)):
        values, index = logits[row].sort()
        values[: 20 - int(count)] = -torch.inf
        hidden = values.softmax(-1).cumsum(-1) <= 1 - limit
        hidden[-1] = False
        expected = torch.empty(20).scatter_(0, index, values.masked_fill(hidden, -torch.inf))
        torch.testing.assert_close(out[row], expected)


def test_scatter_update_writes_each_batch_at_its_position() -> None:
    cache, update, at = torch.zeros(2, 3, 8, 4), torch.randn(2, 3, 1, 4), torch.tensor([2, 5])
    ours = cache.npu()
    torch_npu.scatter_update_(ours, at.npu(), update.npu(), -2)
    for b, position in enumerate(at):
        cache[b, :, position] = update[b, :, 0]
    assert torch.equal(ours.cpu(), cache)


def test_scatter_nd_update_writes_rows_by_index() -> None:
    x, index, rows = torch.zeros(6, 4), torch.tensor([[1], [4]]), torch.randn(2, 4)
    ours = x.npu()
    torch_npu.npu_scatter_nd_update_(ours, index.npu(), rows.npu())
    x[index.flatten()] = rows
    assert torch.equal(ours.cpu(), x)


def test_quant_scatter_rounds_what_it_writes() -> None:
    cache, update = torch.zeros(2, 3, 8, 32, dtype=torch.int8), torch.randn(2, 3, 1, 32).half() * 10
    scale, at = torch.rand(1, 1, 1, 32) + 0.5, torch.tensor([2, 5], dtype=torch.int32)
    ours = cache.npu()
    torch_npu.npu_quant_scatter_(ours, at.npu(), update.npu(), scale.npu(), None, axis=-2, quant_axis=-1)
    for b, position in enumerate(at):
        cache[b, :, position] = (update[b, :, 0].float() / scale[0, 0]).round().to(torch.int8)
    assert torch.equal(ours.cpu(), cache)


@pytest.mark.parametrize("mode", ["Norm", "PA"])
def test_kv_rmsnorm_rope_cache_writes_both_caches(mode: str) -> None:
    latent, rope, length = 512, 64, 4
    kv, gamma = torch.randn(2, 1, length, latent + rope).half(), torch.rand(latent).half()
    cos, sin = torch.randn(2, 1, length, rope).half(), torch.randn(2, 1, length, rope).half()
    paged = mode == "PA"
    shape = (2, 16, 1) if paged else (2, 1, 16)
    k_cache, c_cache = torch.zeros(*shape, rope).half().npu(), torch.zeros(*shape, latent).half().npu()
    index = (
        torch.tensor([1, 2, 3, 4, 17, 18, 19, 20]) if paged else torch.tensor([[1, 2, 3, 4], [1, 2, 3, 4]])
    )
    torch_npu.npu_kv_rmsnorm_rope_cache(
        kv.npu(), gamma.npu(), cos.npu(), sin.npu(), index.npu(), k_cache, c_cache, cache_mode=mode
    )
    x = kv.float()[..., :latent]
    normed = x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * gamma.float()
    y = kv.float()[..., latent:]
    wide = torch.cat((y[..., ::2], y[..., 1::2]), -1)
    turned = torch.cat((-wide[..., rope // 2 :], wide[..., : rope // 2]), -1)
    roped = wide * cos.float() + turned * sin.float()
    for cache, values in ((c_cache, normed), (k_cache, roped)):
        stored = cache.cpu().view(2, 16, -1)
        close(stored[:, 1:5], values[:, 0], 2e-2)
        assert not stored[:, 5:].any()
        assert not stored[:, 0].any()
