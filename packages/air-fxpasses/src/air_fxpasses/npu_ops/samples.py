"""Sample calls of every declared operator: what its tests run, and what a device can be compared on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

HALF: Final = torch.float16
Make = Callable[..., Tensor]


@dataclass(frozen=True)
class Sample:
    """One call. Arguments are made anew for each `Sample`, so kernels may write into them."""

    operator: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    unspecified: tuple[int, ...] = ()
    """Results whose contents the device leaves open."""

    @property
    def name(self) -> str:
        """What tells this call from the others."""
        return f"{self.operator}-{self.label}" if self.label else self.operator


def samples() -> Iterator[Sample]:
    """Sample calls of every operator, with arguments that are the same in every process."""
    state = torch.Generator().manual_seed(0)

    def real(*size: int, dtype: torch.dtype = HALF) -> Tensor:
        return torch.randn(size, generator=state).to(dtype)

    def positive(*size: int, dtype: torch.dtype = HALF) -> Tensor:
        return (torch.rand(size, generator=state) + 0.5).to(dtype)

    def small(*size: int) -> Tensor:
        return torch.randint(-5, 6, size, generator=state, dtype=torch.int8)

    yield from _norms(real, positive)
    yield from _rotary(real)
    yield from _quantisation(real, positive)
    yield from _products(real, positive, small)
    yield from _caches(real)
    yield from _attention(real)
    yield from _experts(real, positive)
    yield from _writes(real, positive, small)


def _norms(real: Make, positive: Make) -> Iterator[Sample]:
    x, y, gamma = real(4, 3, 64), real(4, 3, 64), positive(64)
    yield Sample("npu_rms_norm", (x, gamma))
    yield Sample("npu_rms_norm", (x, positive(3, 64), 1e-3), label="two-axes")
    for name in ("npu_add_rms_norm", "npu_add_rms_norm_cast", "npu_add_rms_norm_v2_functional"):
        yield Sample(name, (x, y, gamma), {"epsilon": 1e-5})
    yield Sample("npu_add_rms_norm_v2", (x.clone(), y.clone(), gamma))
    rows, other, scale = real(4, 64), real(4, 64), positive(64, dtype=torch.float32)
    one = "npu_add_rms_norm_quant"
    yield Sample(one, (rows, other, gamma, scale, None), unspecified=(1,))
    yield Sample(one, (rows, other, gamma, scale, None), {"div_mode": False}, "multiplied", (1,))
    dynamic = "npu_add_rms_norm_dynamic_quant"
    yield Sample(dynamic, (rows, other, gamma), {"smooth_scale1": gamma}, "one", (1, 4))
    both = {"smooth_scale1": gamma, "smooth_scale2": positive(64)}
    yield Sample(dynamic, (rows, other, gamma), both, "two")
    yield Sample("npu_swiglu", (real(3, 16),))
    yield Sample("npu_swiglu", (real(3, 16, 4), 1), label="middle")


def _rotary(real: Make) -> Iterator[Sample]:
    x, cos, sin = real(2, 3, 4, 128), real(2, 3, 1, 128), real(2, 3, 1, 128)
    yield Sample("npu_rotary_mul", (x, cos, sin))
    yield Sample("npu_rotary_mul", (x, cos, sin, "interleave"), label="interleave")
    yield Sample("npu_rotary_mul", (x, cos, sin, "interleave", real(128, 128)), label="matrix")
    yield Sample("npu_apply_rotary_pos_emb", (x.clone(), real(2, 3, 1, 128), cos, sin))
    yield Sample("npu_interleave_rope", (real(2, 4, 3, 64), real(2, 1, 3, 64), real(2, 1, 3, 64)))


def _quantisation(real: Make, positive: Make) -> Iterator[Sample]:
    x = real(4, 64)
    scale = positive(64, dtype=torch.float32)
    yield Sample("npu_quantize", (x, scale, None, torch.qint8, -1, True))
    zero = torch.arange(64, dtype=torch.int32)
    yield Sample("npu_quantize", (x, scale, zero, torch.quint8, 1, True), label="zero-points")
    yield Sample("npu_quantize", (x, positive(64), None, torch.qint8, -1, False), label="multiplied")
    yield Sample("npu_dynamic_quant", (x,))
    yield Sample("npu_dynamic_quant", (x,), {"smooth_scales": positive(64)}, "smooth")
    groups = {"smooth_scales": positive(2, 64), "group_index": torch.tensor([1, 4], dtype=torch.int32)}
    yield Sample("npu_dynamic_quant", (x,), groups, "groups")
    yield Sample("npu_dynamic_quant", (x,), {"quant_mode": "pertensor"}, "pertensor")


def _products(real: Make, positive: Make, small: Make) -> Iterator[Sample]:
    a, b, scale = small(4, 64), small(64, 32), positive(32, dtype=torch.float32)
    yield Sample("npu_quant_matmul", (a, b, scale), {"output_dtype": HALF})
    rows = {"output_dtype": torch.bfloat16, "pertoken_scale": positive(4, dtype=torch.float32)}
    rows["bias"] = torch.arange(32, dtype=torch.int32)
    yield Sample("npu_quant_matmul", (a, b, scale), rows, "pertoken")
    yield Sample("npu_trans_quant_param", (scale,))
    x, narrow = real(4, 64), positive(32)
    yield Sample("npu_weight_quant_batchmatmul", (x, b, narrow))
    offset = {"antiquant_offset": positive(32), "bias": positive(32)}
    yield Sample("npu_weight_quant_batchmatmul", (x, b, narrow), offset, "offset")
    yield Sample("npu_transpose_batchmatmul", (real(2, 3, 128), real(2, 128, 128)))
    orders = {"perm_x1": [1, 0, 2], "perm_x2": [0, 1, 2], "perm_y": [1, 0, 2], "batch_split_factor": 2}
    yield Sample("npu_transpose_batchmatmul", (real(3, 2, 128), real(2, 128, 128)), orders, "split")
    ends = {"group_list": torch.tensor([2, 2, 6]), "split_item": 3, "group_type": 0}
    yield Sample("npu_grouped_matmul", ([real(6, 64)], [real(3, 64, 32)]), ends)
    sizes = {**ends, "group_list": torch.tensor([2, 1, 3]), "group_list_type": 1}
    yield Sample("npu_grouped_matmul", ([real(6, 64)], [real(3, 64, 32)]), sizes, "sizes")
    pairs = ([real(6, 64), real(2, 64)], [real(64, 32), real(64, 16)])
    yield Sample("npu_grouped_matmul", pairs, {"split_item": 0, "group_type": -1}, "separate")
    yield Sample("npu_grouped_matmul.List", pairs, {"split_item": 0})


def _caches(real: Make) -> Iterator[Sample]:
    kv, gamma = real(2, 1, 1, 576), real(512)
    cos, sin = real(2, 1, 1, 64), real(2, 1, 1, 64)
    for name in ("", "_v2", "_v2_functional"):
        where = torch.tensor([[1], [2]])
        args = (kv, gamma, cos, sin, where, real(2, 1, 8, 64), real(2, 1, 8, 512))
        yield Sample(f"npu_kv_rmsnorm_rope_cache{name}", args, {"is_output_kv": True})
        paged = (kv, gamma, cos, sin, torch.tensor([5, 17]), real(2, 16, 1, 64), real(2, 16, 1, 512))
        options = {"is_output_kv": True, "cache_mode": "PA_BNSD"}
        yield Sample(f"npu_kv_rmsnorm_rope_cache{name}", paged, options, "pages")
    for name in ("", "_functional"):
        yield Sample(f"npu_mla_prolog_v3{name}", *_mla(real))


def _mla(
    real: Make, tokens: int = 3, dtype: torch.dtype = torch.bfloat16
) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    hidden, low, heads, nope, rope, latent = 64, 32, 2, 16, 8, 24
    sizes = ((tokens, hidden), (hidden, low), (low, heads * (nope + rope)), (heads, nope, latent))
    weights = [real(*size, dtype=dtype) for size in (*sizes, (hidden, latent + rope))]
    norms = [real(size, dtype=dtype) for size in (low, latent)]
    angles = [real(tokens, rope, dtype=dtype) for _ in range(2)]
    caches = [real(2, 16, 1, width, dtype=dtype) for width in (latent, rope)]
    return (*weights, *norms, *angles, *caches), {"cache_index": torch.arange(4, 4 + tokens)}


def _attention(real: Make) -> Iterator[Sample]:
    query, key, value = real(2, 4, 6, 16), real(2, 2, 8, 16), real(2, 2, 8, 16)
    laid = {
        "BNSD": (query, key, value),
        "BSND": tuple(x.transpose(1, 2).contiguous() for x in (query, key, value)),
        "BSH": tuple(x.transpose(1, 2).flatten(2).contiguous() for x in (query, key, value)),
        "TND": tuple(x.transpose(1, 2).flatten(0, 1).contiguous() for x in (query, key, value)),
    }
    mask = torch.ones(6, 8, dtype=torch.bool).triu(3)
    for layout, args in laid.items():
        packed = layout == "TND"
        one = {"num_heads": 4, "num_key_value_heads": 2, "scale": 0.25, "input_layout": layout}
        one |= {"actual_seq_lengths": [6, 12], "actual_seq_lengths_kv": [8, 16]} if packed else {}
        yield Sample("npu_fused_infer_attention_score", args, {**one, "softmax_lse_flag": True}, layout)
        two = {"num_query_heads": 4, "num_key_value_heads": 2, "softmax_scale": 0.25, "input_layout": layout}
        two |= {"actual_seq_qlen": [6, 12], "actual_seq_kvlen": [8, 16]} if packed else {}
        yield Sample("npu_fused_infer_attention_score_v2", args, two, layout)
        three = {"actual_seq_qlen": [6, 12], "actual_seq_kvlen": [8, 16]} if packed else {}
        yield Sample("npu_fusion_attention", (*args, 4, layout), {"scale": 0.25, **three}, layout)
    names = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD"}
    masked = {**names, "scale": 0.25, "atten_mask": mask, "softmax_lse_flag": True}
    yield Sample("npu_fused_infer_attention_score", laid["BNSD"], masked, "masked")
    pages = {"block_table": torch.tensor([[2, 0], [1, 3]], dtype=torch.int32), "block_size": 16}
    cached = {**names, **pages, "actual_seq_lengths_kv": [20, 5], "input_layout": "BNSD", "scale": 0.25}
    decode = (real(2, 4, 1, 16), real(4, 16, 32), real(4, 16, 32))
    yield Sample("npu_fused_infer_attention_score", decode, cached, "pages")
    for name in ("npu_fused_infer_attention_score", "_npu_fused_infer_attention_score_get_max_workspace"):
        out = {"out": [torch.zeros(2, 4, 6, 16, dtype=HALF), torch.zeros(0)]} if name[0] == "n" else {}
        suffix = ".out" if out else ""
        yield Sample(f"{name}{suffix}", laid["BNSD"], {**names, **out})
    names_v2 = {"num_query_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD"}
    targets = {"out": [torch.zeros(2, 4, 6, 16, dtype=HALF), torch.zeros(0)]}
    yield Sample("npu_fused_infer_attention_score_v2.out", laid["BNSD"], {**names_v2, **targets})
    yield Sample("_npu_fused_infer_attention_score_v2_get_max_workspace", laid["BNSD"], names_v2)
    yield Sample("npu_fusion_attention", (query, key, value, 4, "BNSD"), {"atten_mask": mask}, "masked")
    yield Sample("npu_prompt_flash_attention", laid["BNSD"], {**names, "scale_value": 0.25})
    causal = {**names, "scale_value": 0.25, "atten_mask": mask, "next_tokens": 2147483647}
    yield Sample("npu_prompt_flash_attention", laid["BNSD"], causal, "masked")
    yield Sample("npu_incre_flash_attention", (real(2, 4, 1, 16), key, value), {**names, "scale_value": 0.25})


def _experts(real: Make, positive: Make) -> Iterator[Sample]:
    scores = real(5, 8, dtype=torch.float32)
    yield Sample("npu_moe_gating_top_k_softmax", (scores, None, 2))
    finished = torch.tensor([False, True, False, False, True])
    yield Sample("npu_moe_gating_top_k_softmax", (scores, finished, 2), label="finished")
    yield Sample("npu_moe_gating_top_k", (scores, 2), {"out_flag": True})
    groups = {"norm_type": 1, "k_group": 2, "group_count": 4, "group_select_mode": 1, "out_flag": True}
    yield Sample(
        "npu_moe_gating_top_k", (scores, 2), {**groups, "bias": positive(8, dtype=torch.float32)}, "groups"
    )
    x, chosen = real(3, 16), torch.tensor([[0, 1], [2, 1], [3, 0]], dtype=torch.int32)
    counted = {
        "expert_num": 4,
        "active_num": 6,
        "expert_tokens_num_flag": True,
        "active_expert_range": [0, 4],
    }
    for kind, label in ((0, "sums"), (1, "counts"), (2, "pairs")):
        yield Sample(
            "npu_moe_init_routing_v2", (x, chosen), {**counted, "expert_tokens_num_type": kind}, label, (3,)
        )
    quantised = {**counted, "expert_tokens_num_type": 1, "quant_mode": 1}
    yield Sample("npu_moe_init_routing_v2", (x, chosen), quantised, "quantised")
    rows, place = real(6, 16), torch.tensor([0, 3, 5, 2, 1, 4], dtype=torch.int32)
    shared, experts = positive(4, 16), torch.tensor([[0, 1], [2, 1], [3, 0]], dtype=torch.int32)
    args = (rows, real(3, 16), None, shared, positive(3, 2), place, experts)
    yield Sample("npu_moe_finalize_routing", args)


def _writes(real: Make, positive: Make, small: Make) -> Iterator[Sample]:
    for suffix in ("", "_"):
        places = torch.tensor([[0, 3], [1, 2]])
        yield Sample(f"npu_scatter_nd_update{suffix}", (real(2, 5, 8), places, real(2, 8)))
        where = torch.tensor([1, 4])
        yield Sample(f"scatter_update{suffix}", (real(2, 3, 8, 16), where, real(2, 3, 2, 16), -2))
        updates, scales = real(2, 3, 1, 32), positive(32, dtype=torch.float32)
        at = torch.tensor([1, 4], dtype=torch.int32)
        yield Sample(f"npu_quant_scatter{suffix}", (small(2, 3, 8, 32), at, updates, scales))
    x = real(4, 32)
    yield Sample("npu_dtype_cast", (x, torch.float32))
    yield Sample("_npu_dtype_cast", (x, torch.float32))
    yield Sample("npu_format_cast", (x, 2))
    yield Sample("npu_format_cast.Tensor", (x, real(2, 2)))
    yield Sample("npu_format_cast_.acl_format", (x.clone(), 2))
    yield Sample("npu_format_cast_", (x.clone(), real(4, 32)))
    k, p = torch.tensor([2, 3, 8], dtype=torch.int32), torch.tensor([0.9, 0.5, 0.1])
    logits = real(3, 8, dtype=torch.float32)
    yield Sample("npu_top_k_top_p", (logits, p, k))
    yield Sample("npu_top_k_top_p", (logits, None, k), label="k")
