"""Converters of torch_npu's operators that one operator type of CANN computes, of which no reference is known.

They exist where torch_npu is loaded, and take the arguments that its schema has there. What is not an argument of the
same name is in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch

from air_fxpasses.npu_cards import (
    Count,
    Fixed,
    Ir,
    OrDefault,
    OrEmpty,
    OrSize,
    Respelled,
    Source,
    TypeOfResult,
)
from air_geir.building import Context, Value
from air_geir.converters._registry import add, resolve
from air_geir.converters.npu_by_card import from_one_type
from air_graph import hidden_writes, is_written

_MOE: Final = "MoeDistribute"
_CACHE: Final[Mapping[str, Source]] = {
    "quant_mode": Respelled("quant_mode", {0: "static", 1: "dynamic"}),
    "layout": "input_layout",
}
_ROUNDING: Final = {None: "rint", 0: "rint", 1: "round", 2: "floor", 3: "ceil", 4: "trunc"}
_BEFORE: Final = ("q_out_before_quant", "k_out_before_quant", "v_out_before_quant")
_ROTATION: Final = {"half": 0, "interleave": 1, "quarter": 2, "interleave-half": 3}
_FLOAT: Final = 0
_FLOAT16: Final = 1
_INT8: Final = 2
_BFLOAT16: Final = 27
_UNDEFINED: Final = 28
_NO_TYPES: Final = {"x_dtype": None, "scales_dtype": None}
_NO_QUANTISATION: Final = dict.fromkeys(
    ("antiquant_scale", "antiquant_offset", "dequant_scale", "pertoken_scale", "comm_quant_scale_1",
     "comm_quant_scale_2", "group_sizes", "y_dtype", "x1_dtype", "x2_dtype", "dequant_scale_dtype",
     "pertoken_scale_dtype", "comm_mode")
)  # fmt: skip

ROWS: Final[Mapping[str, Ir]] = {
    "npu_attention_update": Ir("AttentionUpdate", {"go": "local_out", "sp": Count("lse")}),
    "npu_all_gather_base_mm": Ir(
        "AllGatherMatmul",
        {"x1": "input", "group": "hcom", "rank_size": "world_size", "is_gather_out": "gather_output"},
    ),
    "npu_alltoallv_gmm": Ir("AlltoAllvGroupedMatMul", {"group": "hcom"}, only={"comm_mode": None}),
    "npu_batch_gather_matmul": Ir("AddLora", {"y": "input", "weightA": "weight_a", "weightB": "weight_b"}),
    "npu_dequant_bias": Ir(
        "DequantBias", {"activate_scale": "activation_scale", "output_dtype": TypeOfResult("output_dtype")}
    ),
    "npu_dequant_rope_quant_kvcache": Ir("DequantRopeQuantKvcache", _CACHE),
    "npu_dequant_swiglu_quant": Ir(
        "DequantSwigluQuant",
        {
            "quant_mode": Respelled("quant_mode", {0: "static", 1: "dynamic"}),
            "round_mode": Respelled("round_mode", _ROUNDING),
            "activate_dim": Respelled("activate_dim", {None: -1, **{at: at for at in range(-8, 8)}}),
            "dst_type": Respelled("dst_type", {None: _INT8, 1: _INT8}),
        },
    ),
    "npu_fast_gelu_backward": Ir("FastGeluGrad", {"dy": "grad", "x": "input"}),
    "npu_ffn": Ir(
        "FFN", {"output_dtype": Respelled("output_dtype", {None: -1})}, only={"expert_tokens_index": None}
    ),
    "npu_gelu_backward": Ir("GeluGradV2", {"dy": "grad_output", "x": "input"}),
    "npu_gelu_quant": Ir(
        "GeluQuant",
        {"x": "input", "dst_type": Respelled("dst_type", {None: _INT8, 1: _INT8})},
        only={"round_mode": "rint"},
    ),
    "npu_gmm_alltoallv": Ir("GroupedMatMulAlltoAllv", {"group": "hcom"}, only={"comm_mode": None}),
    "npu_group_quant": Ir(
        "GroupQuant",
        {"dst_type": Respelled("dst_dtype", dict.fromkeys((None, torch.int8, torch.qint8), _INT8))},
    ),
    "npu_grouped_matmul_finalize_routing": Ir(
        "GroupedMatmulFinalizeRouting",
        {
            "dtype": Respelled("dtype", {None: _FLOAT, torch.float32: _FLOAT}),
            "output_bs": OrSize("output_bs", "x"),
            "tuning_config": OrDefault("tuning_config", [0]),
        },
        only=dict.fromkeys(("x_dtype", "w_dtype", "scale_dtype", "pertoken_scale_dtype")),
        not_packed=("w",),
    ),
    "npu_grouped_matmul_swiglu_quant_v2": Ir(
        "GroupedMatmulSwigluQuantV2",
        {
            "weight_assist_matrix": OrEmpty("weight_assist_matrix"),
            "dequant_dtype": Respelled("dequant_dtype", {5: _FLOAT16, 6: _FLOAT, 15: _BFLOAT16}),
            "quant_dtype": Respelled("quant_dtype", {1: _INT8}),
            "tuning_config": OrDefault("tuning_config", [0]),
        },
        only=dict.fromkeys(("x_dtype", "weight_dtype", "weight_scale_dtype", "x_scale_dtype")),
    ),
    "npu_lightning_indexer": Ir("LightningIndexer", {"return_values": "return_value"}),
    "npu_masked_causal_conv1d": Ir("MaskedCausalConv1d"),
    "npu_masked_softmax_with_rel_pos_bias": Ir("MaskedSoftmaxWithRelPosBias"),
    "npu_mla_prolog": Ir("MlaProlog"),
    "npu_mla_prolog_v2": Ir("MlaPrologV2"),
    "npu_mm_all_reduce_base": Ir(
        "MatmulAllReduce", {"group": "hcom", "y_dtype": Fixed(_UNDEFINED)}, only=_NO_QUANTISATION
    ),
    "npu_mm_reduce_scatter_base": Ir(
        "MatmulReduceScatter", {"x1": "input", "group": "hcom", "rank_size": "world_size"}
    ),
    "npu_moe_distribute_combine": Ir(f"{_MOE}Combine"),
    "npu_moe_distribute_combine_add_rms_norm": Ir(f"{_MOE}CombineAddRmsNorm", {"assist_info": "expand_idx"}),
    "npu_moe_distribute_combine_v2": Ir(f"{_MOE}CombineV2"),
    "npu_moe_distribute_dispatch": Ir(f"{_MOE}Dispatch"),
    "npu_moe_distribute_dispatch_v2": Ir(
        f"{_MOE}DispatchV2", {"y_dtype": TypeOfResult("y_dtype")}, only={"y_dtype": None, **_NO_TYPES}
    ),
    "npu_moe_init_routing": Ir("MoeInitRouting"),
    "npu_moe_re_routing": Ir("MoeReRouting", only={"tokens_dtype": None}),
    "npu_moe_update_expert": Ir("MoeUpdateExpert"),
    "npu_qkv_rms_norm_rope_cache": Ir("QkvRmsNormRopeCache", gives=_BEFORE),
    "npu_qkv_rms_norm_rope_cache_functional": Ir(
        "QkvRmsNormRopeCache", gives=(*_BEFORE, "q_out", "k_cache", "v_cache")
    ),
    "npu_quant_grouped_matmul_dequant": Ir("QuantGroupedMatmulDequant", {"x_quant_mode": "quant_mode"}),
    "npu_quant_matmul_dequant": Ir("QuantMatmulDequant", {"x_quant_mode": "quant_mode"}),
    "npu_quant_matmul_reduce_sum": Ir(
        "QuantMatmulReduceSum", {"dims": Fixed([0]), "dtype": Fixed(_BFLOAT16)}
    ),
    "npu_recurrent_gated_delta_rule": Ir("RecurrentGatedDeltaRule", {"scale_value": "scale"}, gives=("out",)),
    "npu_recurrent_gated_delta_rule_functional": Ir("RecurrentGatedDeltaRule", {"scale_value": "scale"}),
    "npu_rms_norm_backward": Ir("RmsNormGrad", {"x": "input"}),
    "npu_rope_quant_kvcache": Ir("DequantRopeQuantKvcache", _CACHE),
    "npu_rotary_mul_backward": Ir(
        "RotaryPositionEmbeddingGrad",
        {"dy": "grad", "cos": "r1", "sin": "r2", "x": "input", "mode": Respelled("rotary_mode", _ROTATION)},
    ),
    "npu_sparse_flash_attention": Ir("SparseFlashAttention"),
    "npu_swiglu_backward": Ir("SwiGluGrad", {"y_grad": "grad_output", "x": "input"}),
    "npu_transpose_quant_batchmatmul": Ir(
        "TransposeQuantBatchMatMul",
        {"dtype": TypeOfResult("dtype")},
        only={"group_sizes": None, "x1_dtype": None, "x2_dtype": None},
    ),
}


@dataclass(frozen=True)
class Loaded:
    """An operator of the torch_npu that is loaded."""

    op: torch._ops.OpOverload

    @property
    def parsed(self) -> torch._C.FunctionSchema:
        """Its schema."""
        return self.op._schema

    @property
    def schema(self) -> str:
        """The same as text."""
        return str(self.op._schema)

    @property
    def mutated(self) -> tuple[str, ...]:
        """The arguments that the schema marks as written."""
        return tuple(a.name for a in self.parsed.arguments if is_written(a))

    @property
    def hides_writes(self) -> tuple[str, ...]:
        """Arguments that the device writes although the schema does not say so."""
        return hidden_writes(f"{self.op.name()}.default") or ()


def npu_prefetch(
    ctx: Context, input: Value, dependency: Value | None, max_size: int, offset: int = 0
) -> None:
    """npu_prefetch(Tensor input, Tensor? dependency, int max_size, int offset=0) -> ()

    It begins when `dependency` is there; what it fetches is no result.
    """
    if dependency is None:
        ctx.refuse(
            "a prefetch that waits for nothing has no place in a graph", "pass the tensor it waits for"
        )
    if max_size <= 0 or offset < 0:
        ctx.refuse(f"there is nothing to fetch: max_size {max_size}, offset {offset}", "see npu_prefetch")
    attrs = {"max_size": max_size} | ({"offset": offset} if offset else {})
    ctx.graph.add("Cmo", input.port, attrs=attrs).run_after(dependency.port.node)


def register_loaded() -> None:
    """Registers a converter for every row whose operator is loaded, and for the one that is no row."""
    for name, ir in ROWS.items():
        if (op := resolve(f"npu.{name}.default")) is not None:
            add(f"npu.{name}.default", from_one_type(Loaded(op), ir), family="npu")
    if resolve("npu.npu_prefetch.default") is not None:
        add("npu.npu_prefetch.default", npu_prefetch, family="npu")


register_loaded()
