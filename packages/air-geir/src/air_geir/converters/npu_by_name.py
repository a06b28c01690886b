"""Converters of torch_npu's operators that one operator type of CANN computes, of which no reference is known.

They exist where torch_npu is loaded, and take the arguments that its schema has there. What is not an argument of the
same name is in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from air_fxpasses.npu_cards import (
    FOUR_BITS,
    SHARED_EXPONENT,
    Count,
    Fixed,
    InType,
    Ir,
    OrDefault,
    OrEmpty,
    OrSize,
    ReadAs,
    Respelled,
    Source,
    ThreeInOne,
    TypeNumber,
    TypeOfResult,
)
from air_geir.building import Context, Value
from air_geir.converters._foreign_types import held_in, read_as, type_and_shape, type_named
from air_geir.converters._npu_narrow_rows import ROWS as _NARROW
from air_geir.converters._npu_narrow_rows import WITH
from air_geir.converters._npu_rows_of_ranks import ROWS as _OF_RANKS
from air_geir.converters._registry import add, resolve
from air_geir.converters._rows import by_schema
from air_geir.converters.convolution import window
from air_geir.converters.npu_by_card import from_one_type
from air_geir.ir import Format
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
_NO_QUANTISATION: Final = dict.fromkeys(
    ("antiquant_scale", "antiquant_offset", "dequant_scale", "pertoken_scale", "comm_quant_scale_1",
     "comm_quant_scale_2", "group_sizes", "y_dtype", "x1_dtype", "x2_dtype", "dequant_scale_dtype",
     "pertoken_scale_dtype", "comm_mode")
)  # fmt: skip

_CONVOLUTION: Final[Mapping[str, Source]] = {
    "activation_mode": Respelled("activation", {None: 0, "None": 0, "silu": 1, "swish": 2}),
    "conv_mode": Respelled("conv_mode", {None: 0, "default": 0, "pangu": 1}),
    "pad_slot_id": OrDefault("pad_slot_id", -1),
    "run_mode": OrDefault("run_mode", 0),
    "residual_connection": OrDefault("residual_connection", 0),
    "max_query_len": OrDefault("max_query_len", -1),
    "block_size": OrDefault("block_size", 128),
}

ROWS: Final[Mapping[str, Ir]] = {
    **_NARROW,
    **_OF_RANKS,
    "batch_norm_gather_stats_update": Ir(
        "SyncBatchNormGatherStats",
        {
            "total_sum": "mean",
            "total_square_sum": "invstd",
            "sample_count": InType("counts", torch.int32),
            "mean": "running_mean",
            "variance": "running_var",
        },
        gives=("batch_mean", "batch_invstd"),
        ignored=("input",),
    ),
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
            "dst_type": TypeNumber("dst_type", torch.int8),
        },
        held={"y": "dst_type"},
    ),
    "npu_fast_gelu_backward": Ir("FastGeluGrad", {"dy": "grad", "x": "input"}),
    "npu_ffn": Ir(
        "FFN", {"output_dtype": Respelled("output_dtype", {None: -1})}, only={"expert_tokens_index": None}
    ),
    "npu_fused_causal_conv1d": Ir("FusedCausalConv1d", _CONVOLUTION, gives=("y",)),
    "npu_fused_causal_conv1d_v2": Ir("InplaceFusedCausalConv1d", _CONVOLUTION),
    "npu_fused_matmul": Ir("FusedMatMul"),
    "npu_gelu_backward": Ir("GeluGradV2", {"dy": "grad_output", "x": "input"}),
    "npu_gelu_quant": Ir(
        "GeluQuant",
        {"x": "input", "dst_type": TypeNumber("dst_type", torch.int8)},
        held={"y": "dst_type"},
    ),
    "npu_gmm_alltoallv": Ir("GroupedMatMulAlltoAllv", {"group": "hcom"}, only={"comm_mode": None}),
    "npu_group_quant": Ir(
        "GroupQuant", {"dst_type": TypeNumber("dst_dtype", torch.int8)}, held={"y": "dst_dtype"}
    ),
    "npu_grouped_matmul_finalize_routing": Ir(
        "GroupedMatmulFinalizeRouting",
        {
            "dtype": Respelled("dtype", {None: _FLOAT, torch.float32: _FLOAT}),
            "output_bs": OrSize("output_bs", "x"),
            "tuning_config": OrDefault("tuning_config", [0]),
            "x": ReadAs("x", "x_dtype"),
            "w": ReadAs("w", "w_dtype", FOUR_BITS, times="x"),
            "scale": ReadAs("scale", "scale_dtype"),
            "pertoken_scale": ReadAs("pertoken_scale", "pertoken_scale_dtype"),
        },
    ),
    "npu_grouped_matmul_swiglu_quant_v2": Ir(
        "GroupedMatmulSwigluQuantV2",
        {
            "weight_assist_matrix": OrEmpty("weight_assist_matrix"),
            "dequant_dtype": Respelled("dequant_dtype", {5: _FLOAT16, 6: _FLOAT, 15: _BFLOAT16}),
            "quant_dtype": TypeNumber("quant_dtype", torch.int8),
            "tuning_config": OrDefault("tuning_config", [0]),
            "x": ReadAs("x", "x_dtype"),
            "weight": ReadAs("weight", "weight_dtype", times="x"),
            "weight_scale": ReadAs("weight_scale", "weight_scale_dtype"),
            "x_scale": ReadAs("x_scale", "x_scale_dtype"),
        },
        held={"y": "quant_dtype", "y_scale": SHARED_EXPONENT},
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
        f"{_MOE}DispatchV2",
        {"y_dtype": TypeOfResult("y_dtype"), "scales": ReadAs("scales", "scales_dtype")},
        only={"x_dtype": None},
        held={"expand_x": "y_dtype", "dynamic_scales": SHARED_EXPONENT},
    ),
    "npu_moe_init_routing": Ir("MoeInitRouting"),
    "npu_moe_re_routing": Ir(
        "MoeReRouting", {"tokens": ReadAs("tokens", "tokens_dtype")}, held={"permute_tokens": "tokens_dtype"}
    ),
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
        {
            "dtype": TypeOfResult("dtype"),
            "x1": ReadAs("x1", "x1_dtype", is_whole=True),
            "x2": ReadAs("x2", "x2_dtype", is_whole=True),
            "group_size": ThreeInOne("group_sizes"),
        },
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


def npu_scatter_list(
    ctx: Context, input: Sequence[Value], indices: Value, updates: Value, mask: Value | None = None,
    reduce: str = "update", axis: int = -2,
) -> tuple[Value, ...]:  # fmt: skip
    """The operator type writes in place; it is given copies."""
    copies = [ctx.emit("TensorMove", one, shape=one.dims) for one in input]
    return ctx.emit_many(
        "ScatterList", copies, indices, updates, mask, reduce=reduce, axis=axis, num_outputs=len(copies),
        dtype=[one.dtype for one in copies], shape=[one.dims for one in copies],
    )  # fmt: skip


def npu_quant_conv2d(
    ctx: Context, input: Value, weight: Value, scale: Value, strides: Any = 1, pads: Any = 0, dilations: Any = 1,
    groups: int = 1, offset_x: int = 0, round_mode: str = "rint", output_dtype: int | None = None,
    bias: Value | None = None, offset: Value | None = None, input_dtype: int | None = None,
    weight_dtype: int | None = None,
) -> Value:  # fmt: skip
    """A convolution of images whose channels come second."""
    if offset is not None or output_dtype is None:
        ctx.refuse(
            "an offset, or no output_dtype, has no operator here", "leave offset out, give output_dtype"
        )
    x, kernel = (
        one if code is None else read_as(ctx, one, type_named(ctx, code))
        for one, code in ((input, input_dtype), (weight, weight_dtype))
    )
    kind, dims = type_and_shape(ctx, "output_dtype", {"output_dtype": output_dtype}, ctx.meta)
    attrs = window(ctx, 2, groups, strides, pads, dilations)
    attrs |= {"dtype": kind, "offset_x": offset_x, "round_mode": round_mode}
    result = ctx.emit("QuantConv2D", x, kernel, scale, bias, None, attrs=attrs, dtype=kind, shape=dims)
    ctx.layout(result, Format.NCHW)
    return held_in(ctx, result, ctx.meta)


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


def converter_of(name: str, op: torch._ops.OpOverload) -> Callable[..., Any]:
    """The converter that a row makes, or of two rows the one that an argument of the call chooses."""
    plain = from_one_type(Loaded(op), ROWS[name])
    if name not in WITH:
        return plain
    argument, ir = WITH[name]
    other = from_one_type(Loaded(op), ir)

    def choose(ctx: Context, given: dict[str, Any]) -> Any:
        return (plain if given[argument] is None else other)(ctx, **given)

    return by_schema(op._schema, choose, __name__)


def register_loaded() -> None:
    """Registers a converter for every row whose operator is loaded, and for those that are no rows."""
    for name in ROWS:
        if (op := resolve(f"npu.{name}.default")) is not None:
            add(f"npu.{name}.default", converter_of(name, op), family="npu")
    for name, function in _FUNCTIONS.items():
        if resolve(f"npu.{name}.default") is not None:
            add(f"npu.{name}.default", function, family="npu")


#: Those that are no rows.
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "npu_prefetch": npu_prefetch,
    "npu_quant_conv2d": npu_quant_conv2d,
    "npu_scatter_list": npu_scatter_list,
}
register_loaded()
