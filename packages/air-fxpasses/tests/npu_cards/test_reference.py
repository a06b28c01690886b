"""Reference kernels against compositions of torch that say the same in other words."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.nn import functional

import air_fxpasses.npu_ops  # noqa: F401  (declares the operators)
from air_fxpasses.npu_cards import NotCovered

npu = torch.ops.npu
F32 = torch.float32


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(0)


def test_norms_are_torchs_rms_norm() -> None:
    x, y, g = torch.randn(3, 5, 16), torch.randn(3, 5, 16), torch.rand(16)
    expected = functional.rms_norm(x + y, (16,), g, 1e-3)
    close(npu.npu_rms_norm(x + y, g, 1e-3)[0], expected)
    out, rstd, total = npu.npu_add_rms_norm(x, y, g, 1e-3)
    close(out, expected)
    close(total, x + y)
    close(total * rstd * g, expected)
    a, b = x.clone(), y.clone()
    close(npu.npu_add_rms_norm_v2(a, b, g, 1e-3), rstd)
    close(a, expected)
    close(b, x + y)


def test_normalised_and_quantised_is_both_after_one_another() -> None:
    x, y, g, s = torch.randn(6, 32), torch.randn(6, 32), torch.rand(32), torch.rand(32) + 0.5
    normed = functional.rms_norm(x + y, (32,), g, 1e-6)
    values, none, _, scale, _ = npu.npu_add_rms_norm_dynamic_quant(x, y, g, smooth_scale1=s)
    assert none.numel() == 0
    close(values.float() * scale[:, None] / s, normed, 0.05)
    assert (values.abs().amax(-1) == 127).all()
    fixed, _, _ = npu.npu_add_rms_norm_quant(x, y, g, s, None)
    expected = torch.quantize_per_channel(
        normed.t().contiguous(), s.double(), torch.zeros(32), 0, torch.qint8
    )
    assert (fixed.t().int() - expected.int_repr().int()).abs().max() <= 1


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_rotation_is_multiplication_by_a_complex_number(mode: str) -> None:
    x, angle = torch.randn(2, 3, 4, 8), torch.rand(1, 3, 1, 4)
    halves = torch.cat((angle, angle), -1) if mode == "half" else angle.repeat_interleave(2, -1)
    pairs = x.unflatten(-1, (2, 4)).transpose(-1, -2) if mode == "half" else x.unflatten(-1, (4, 2))
    turned = torch.view_as_real(
        torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angle), angle)
    )
    expected = turned.transpose(-1, -2).flatten(-2) if mode == "half" else turned.flatten(-2)
    close(npu.npu_rotary_mul(x, halves.cos(), halves.sin(), mode), expected)
    if mode == "half":
        close(npu.npu_apply_rotary_pos_emb(x, x + 1, halves.cos(), halves.sin())[0], expected)
    else:
        both = torch.cat((angle, angle), -1)
        found = npu.npu_interleave_rope(x, both.cos(), both.sin())
        close(found, torch.cat((expected[..., ::2], expected[..., 1::2]), -1))


def test_dynamic_quantisation_undone_gives_the_values_back() -> None:
    x = torch.randn(4, 64)
    values, scale = npu.npu_dynamic_quant(x)
    close(values.float() * scale[:, None], x, 0.03)
    packed, scale = npu.npu_dynamic_quant(x, dst_type=torch.quint4x2)
    nibbles = torch.stack([(packed >> (4 * i)) & 15 for i in range(8)], -1).flatten(-2)
    signed = torch.where(nibbles > 7, nibbles - 16, nibbles)
    close(signed.float() * scale[:, None], x, 0.3)
    zero, none = npu.npu_dynamic_quant(torch.zeros(2, 8))
    assert not zero.any()
    assert not none.any()


def test_a_weight_of_experts_is_scaled_by_groups_of_its_rows() -> None:
    x, ends = torch.randn(8, 16), torch.tensor([2, 5, 8])
    weight = torch.randint(-8, 8, (3, 16, 32), dtype=torch.int8)
    scale, offset = torch.rand(3, 2, 32), torch.rand(3, 2, 32)
    (found,) = npu.npu_grouped_matmul(
        [x],
        [weight],
        antiquant_scale=[scale],
        antiquant_offset=[offset],
        group_list=ends,
        split_item=3,
        group_type=0,
    )
    wide = [each.repeat_interleave(8, 1) for each in (scale, offset)]
    weights = (weight + wide[1]) * wide[0]
    close(found, torch.cat([rows @ weights[i] for i, rows in enumerate(x.split([2, 3, 3]))]), 1e-4)


def test_scales_of_groups_of_a_result_are_refused_by_name() -> None:
    x, weight = (torch.ones(size, dtype=torch.int8) for size in ((8, 16), (3, 16, 32)))
    with pytest.raises(NotCovered, match="groups"):
        npu.npu_quant_matmul(x, weight[0], torch.rand(4, 32), pertoken_scale=torch.rand(8), output_dtype=F32)
    with pytest.raises(NotCovered, match="groups"):
        npu.npu_grouped_matmul(
            [x], [weight], scale=[torch.rand(3, 2, 32)], per_token_scale=[torch.rand(8)], split_item=3,
            group_list=torch.tensor([2, 5, 8]), group_type=0, output_dtype=torch.bfloat16,
        )  # fmt: skip


def test_quantised_products_equal_products_of_integers() -> None:
    a, b = (torch.randint(-9, 9, size, dtype=torch.int8) for size in ((5, 16), (16, 8)))
    scale, rows = torch.rand(8), torch.rand(5)
    expected = torch._int_mm(functional.pad(a, (0, 0, 0, 16)), b)[:5].float() * scale * rows[:, None]
    close(npu.npu_quant_matmul(a, b, scale, pertoken_scale=rows, output_dtype=F32), expected)
    packed = npu.npu_trans_quant_param(scale)
    close(npu.npu_quant_matmul(a, b, packed, pertoken_scale=rows, output_dtype=F32), expected, 1e-2)
    alone = npu.npu_quant_matmul(a, b, scale, output_dtype=torch.float16)
    assert torch.equal(alone, npu.npu_quant_matmul(a, b, packed, output_dtype=torch.float16))
    x = torch.randn(3, 16)
    close(npu.npu_weight_quant_batchmatmul(x, b, scale, scale), x @ ((b + scale) * scale), 1e-4)
    left, right = torch.randn(2, 3, 8), torch.randn(2, 8, 4)
    close(npu.npu_transpose_batchmatmul(left, right), torch.einsum("bmk,bkn->mbn", left, right))


def test_grouped_product_is_a_product_per_group() -> None:
    x, w = torch.randn(7, 8), torch.randn(3, 8, 4)
    (found,) = npu.npu_grouped_matmul(
        [x], [w], group_list=torch.tensor([2, 2, 7]), split_item=3, group_type=0
    )
    close(found, torch.cat((x[:2] @ w[0], x[2:] @ w[2])))
    x, w = torch.randn(4, 6), torch.randn(6, 5)
    (deep,) = npu.npu_grouped_matmul([x], [w], group_list=torch.tensor([2, 6]), split_item=3, group_type=2)
    close(deep.sum(0), x @ w)


def test_a_grouped_product_takes_packed_scales_as_the_product_does() -> None:
    x, w, scale = torch.ones(4, 8, dtype=torch.int8), torch.ones(2, 8, 4, dtype=torch.int8), torch.rand(2, 4)
    options = {
        "group_list": torch.tensor([1, 4]),
        "split_item": 3,
        "group_type": 0,
        "output_dtype": torch.float16,
    }
    (plain,) = npu.npu_grouped_matmul([x], [w], scale=[scale], **options)
    (packed,) = npu.npu_grouped_matmul([x], [w], scale=[npu.npu_trans_quant_param(scale)], **options)
    close(packed, plain, 1e-2)
    assert plain.any()


@pytest.mark.parametrize("name", ["npu_swiglu", "npu_geglu", "npu_clipped_swiglu"])
def test_a_gate_that_cannot_be_halved_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="its size is odd"):
        getattr(npu, name)(torch.ones(2, 3))


def test_a_clipped_gate_is_a_gate_within_its_limits() -> None:
    x = torch.randn(4, 6) * 5
    gate, linear = x[:, ::2].clamp(max=7.0), x[:, 1::2].clamp(-7.0, 7.0)
    expected = gate / (1 + (-1.702 * gate).exp()) * (linear + 1)
    close(npu.npu_clipped_swiglu(x), expected)
    halves = torch.cat((x[:, ::2], x[:, 1::2]), -1).t()
    close(npu.npu_clipped_swiglu(halves, dim=0, interleaved=False), expected.t())


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_torchs_attention(causal: bool) -> None:
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    expected = functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.3, enable_gqa=True)
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1) if causal else None
    names = {"num_key_value_heads": 2, "input_layout": "BNSD", "atten_mask": mask}
    out, lse = npu.npu_fused_infer_attention_score(
        q, k, v, num_heads=4, scale=0.3, softmax_lse_flag=True, **names
    )
    close(out, expected)
    scores = (q @ k.repeat_interleave(2, 1).transpose(-1, -2)) * 0.3
    scores = scores if mask is None else scores.masked_fill(mask, -torch.inf)
    close(lse, scores.logsumexp(-1, keepdim=True))
    close(
        npu.npu_fused_infer_attention_score_v2(q, k, v, num_query_heads=4, softmax_scale=0.3, **names)[0],
        expected,
    )
    close(npu.npu_prompt_flash_attention(q, k, v, num_heads=4, scale_value=0.3, **names), expected)
    close(npu.npu_fusion_attention(q, k, v, 4, "BNSD", scale=0.3, atten_mask=mask)[0], expected)
    for mode in (2, 3) if causal else ():
        found = npu.npu_fusion_attention(q, k, v, 4, "BNSD", scale=0.3, atten_mask=mask, sparse_mode=mode)[0]
        close(found, expected)
    one = npu.npu_incre_flash_attention(
        q[:, :, 5:], k, v, num_heads=4, scale_value=0.3, num_key_value_heads=2, input_layout="BNSD"
    )
    close(one, functional.scaled_dot_product_attention(q[:, :, 5:], k, v, scale=0.3, enable_gqa=True))
    told, _ = npu.npu_fused_infer_attention_score(
        q[:, :, 5:],
        k,
        v,
        num_heads=4,
        scale=0.3,
        num_key_value_heads=2,
        input_layout="BNSD",
        actual_seq_lengths=[9, 0],
    )
    close(told, one)  # of one query no lengths of queries are read


def test_paged_and_packed_attention_equal_the_plain_one() -> None:
    lengths = [5, 3]
    k, v = torch.randn(2, 8, 2, 8), torch.randn(2, 8, 2, 8)
    q = torch.randn(2, 4, 1, 8)
    table = torch.tensor([[3, 0], [1, 2]])
    pages = [torch.zeros(4, 4, 16) for _ in range(2)]
    for cache, x in zip(pages, (k, v), strict=True):
        for b, page in itertools.product(range(2), range(2)):
            cache[table[b, page]] = x[b, 4 * page : 4 * page + 4].flatten(1)
    options: dict[str, Any] = {
        "num_heads": 4,
        "num_key_value_heads": 2,
        "input_layout": "BNSD",
        "block_size": 4,
    }
    out, _ = npu.npu_fused_infer_attention_score(
        q, *pages, block_table=table, actual_seq_lengths_kv=lengths, **options
    )
    for b, n in enumerate(lengths):
        kb, vb = (x[b : b + 1, :n].transpose(1, 2) for x in (k, v))
        close(
            out[b : b + 1],
            functional.scaled_dot_product_attention(q[b : b + 1], kb, vb, scale=1.0, enable_gqa=True),
        )


def test_cache_step_normalises_turns_and_stores() -> None:
    kv, gamma, cos, sin = (
        torch.randn(2, 1, 3, 12),
        torch.rand(8),
        torch.rand(2, 1, 3, 4),
        torch.rand(2, 1, 3, 4),
    )
    k_cache, ckv_cache = torch.zeros(2, 1, 6, 4), torch.zeros(2, 1, 6, 8)
    index = torch.tensor([[0, 2, -1], [5, 1, 3]])
    npu.npu_kv_rmsnorm_rope_cache_v2(kv, gamma, cos, sin, index, k_cache, ckv_cache)
    normed = functional.rms_norm(kv[..., :8], (8,), gamma, 1e-5)
    turned = npu.npu_interleave_rope(kv[..., 8:], cos, sin)
    for b, t in itertools.product(range(2), range(3)):
        if index[b, t] >= 0:
            close(ckv_cache[b, 0, index[b, t]], normed[b, 0, t])
            close(k_cache[b, 0, index[b, t]], turned[b, 0, t])
    assert not ckv_cache[0, 0, [1, 3, 4, 5]].any()


def test_experts_there_and_back_is_the_weighted_sum() -> None:
    x, logits = torch.randn(5, 8), torch.randn(5, 4)
    weights, chosen, _ = npu.npu_moe_gating_top_k_softmax(logits, None, 2)
    close(weights, logits.softmax(-1).topk(2).values)
    rows, where, counts, _ = npu.npu_moe_init_routing_v2(
        x,
        chosen,
        expert_num=4,
        active_num=10,
        expert_tokens_num_flag=True,
        expert_tokens_num_type=1,
        active_expert_range=[0, 4],
    )
    assert counts.tolist() == [int((chosen == e).sum()) for e in range(4)]
    close(rows, x[chosen.flatten().argsort(stable=True) // 2])
    factor = torch.arange(1.0, 5.0).repeat_interleave(counts)[:, None]
    out = npu.npu_moe_finalize_routing(
        rows * factor, None, None, None, weights, where, chosen, drop_pad_mode=2
    )
    close(out, (x[:, None] * (chosen + 1)[..., None] * weights[..., None]).sum(1))


def test_scatters_write_where_indices_say() -> None:
    cache, new = torch.zeros(2, 3, 6, 4), torch.randn(2, 3, 2, 4)
    found = npu.scatter_update(cache, torch.tensor([1, 4]), new, -2)
    assert torch.equal(found[0, :, 1:3], new[0])
    assert torch.equal(found[1, :, 4:6], new[1])
    assert found.count_nonzero() == new.count_nonzero()
    assert not cache.any()
    places, rows = torch.tensor([[0, 3], [1, 2]]), torch.randn(2, 4)
    nd = npu.npu_scatter_nd_update_(torch.zeros(2, 5, 4), places, rows)
    assert torch.equal(nd[places[:, 0], places[:, 1]], rows)


@pytest.mark.parametrize("mode", ["Norm", "PA_NZ"])
def test_keys_and_values_go_to_the_slots_of_their_tokens(mode: str) -> None:
    tokens, heads, block, slots = 4, 2, 8, [9, -1, 3, 15]
    given = torch.randn(tokens, heads, 8), torch.randn(tokens, heads, 16)
    caches = [
        torch.zeros(2, block, heads, x.shape[2])
        if mode == "Norm"
        else torch.zeros(2, x.shape[2] // 4, block, 8)
        for x in given
    ]
    npu.npu_scatter_pa_kv_cache(*given, *caches, torch.tensor(slots), cache_mode=mode)
    for rows, cache in zip(given, caches, strict=True):
        for page, place in itertools.product(range(2), range(block)):
            found = (cache[page, place] if mode == "Norm" else cache[page, :, place]).flatten()
            slot = page * block + place
            wanted = rows[slots.index(slot)].flatten() if slot in slots else torch.zeros_like(found)
            assert torch.equal(found, wanted)


def test_sampling_keeps_the_smallest_set_of_enough_probability() -> None:
    logits = torch.tensor([[0.1, 0.5, 0.2, 0.2]]).log()
    kept = npu.npu_top_k_top_p(logits, torch.tensor([0.6]), None).isfinite()
    assert kept.tolist()[0][1]
    assert npu.npu_top_k_top_p(logits, None, torch.tensor([1])).isfinite().tolist() == [
        [False, True, False, False]
    ]
    close(npu.npu_swiglu(logits), functional.silu(logits[:, :2]) * logits[:, 2:])
