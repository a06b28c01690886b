"""Rows of torch_npu's operators that talk to other ranks: products with a collective, workers of attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from air_fxpasses.npu_cards import (
    Fixed,
    Ir,
    OrDefault,
    OrElse,
    ReadAs,
    Source,
    ThreeInOne,
    TypeNumber,
    TypeOfResult,
)

_NO_TYPE: Final = -1
_GROUP: Final[Mapping[str, Source]] = {"group": "hcom", "group_size": ThreeInOne("group_sizes")}


def _operands(times: str, **names: str) -> Mapping[str, Source]:
    """Two operands and their scales, each with an argument that names its type."""
    return {
        "x1": ReadAs(names.get("x1", "x1"), "x1_dtype"),
        "x2": ReadAs("x2", "x2_dtype", times=times, is_whole=not times),
        "x1_scale": ReadAs("x1_scale", "x1_scale_dtype"),
        "x2_scale": ReadAs("x2_scale", "x2_scale_dtype"),
    }


def _groups(*names: str) -> Mapping[str, Source]:
    """The operands of products of groups, and of the product beside them."""
    return {
        name: ReadAs(
            name, f"{name}_dtype", times=name.replace("weight", "x") if name.endswith("weight") else ""
        )
        for name in (f"{part}_{of}" for part in ("gmm", "mm") for of in names)
    }


_TO_ALL: Final[Mapping[str, Source]] = {
    "group": "hcom",
    "y_dtype": TypeNumber("y_dtype", torch.float32),
    "comm_scale": "common_scale",
    "comm_quant_mode": Fixed(0),
    "comm_quant_dtype": Fixed(_NO_TYPE),
    "group_size": ThreeInOne("group_sizes"),
}
_TO_ALL_ONLY: Final = dict.fromkeys(
    ("common_quant_mode", "comm_quant_dtype", "output_scale_dtype", "comm_scale_dtype")
)
_GROUPS: Final[Mapping[str, Source]] = {
    **_groups("x", "weight", "x_scale", "weight_scale"),
    "group": "hcom",
    "group_size": ThreeInOne("group_size"),
    "y_dtype": TypeNumber("gmm_y_dtype"),
    "mm_dtype": TypeNumber("mm_y_dtype", torch.float16),
    "gmm_x_quant_mode": OrDefault("gmm_x_quant_mode", 1),
    "gmm_weight_quant_mode": OrDefault("gmm_weight_quant_mode", 1),
}

ROWS: Final[Mapping[str, Ir]] = {
    "_npu_distribute_barrier": Ir("DistributeBarrier"),
    "attention_worker_scheduler": Ir("AttentionWorkerScheduler", {"schedule_context": "input"}),
    "ffn_worker_scheduler": Ir("FfnWorkerScheduler", {"schedule_context": "input"}),
    "npu_all_gather_quant_mm": Ir(
        "AllGatherMatmulV2",
        {
            **_operands("x1", x1="input"),
            **_GROUP,
            "rank_size": "world_size",
            "is_gather_out": "gather_output",
            "is_amax_out": "amax_output",
            "y_dtype": TypeOfResult("y_dtype"),
        },
        held={"gather_out": "x1_dtype"},
    ),
    "npu_all_to_all_matmul": Ir(
        "AlltoAllMatmul",
        {
            "group": "hcom",
            "all2all_axes": OrDefault("all2all_axes", [-2, -1]),
            "alltoall_out_flag": "all2all_out_flag",
            "y_dtype": TypeOfResult(""),
        },
    ),
    "npu_all_to_all_quant_matmul": Ir(
        "AlltoAllMatmul",
        {
            **_operands(""),
            **_TO_ALL,
            "all2all_axes": OrDefault("all2all_axes", [-2, -1]),
            "alltoall_out_flag": "all2all_out_flag",
            "x1_quant_mode": OrDefault("x1_quant_mode", 0),
            "x2_quant_mode": OrDefault("x2_quant_mode", 0),
            "x1_quant_dtype": TypeNumber("x1_quant_dtype"),
        },
        only=_TO_ALL_ONLY,
        held={"all2all_out": "x1_dtype"},
    ),
    "npu_alltoallv_quant_gmm": Ir(
        "AlltoAllvQuantGroupedMatMul",
        {
            **_GROUPS,
            "mm_x_quant_mode": OrDefault("mm_x_quant_mode", 1),
            "mm_weight_quant_mode": OrDefault("mm_weight_quant_mode", 1),
        },
        held={"permute_out": "gmm_x_dtype"},
    ),
    "npu_attention_to_ffn": Ir("AttentionToFFN"),
    "npu_attention_worker_combine": Ir("AttentionWorkerCombine"),
    "npu_ffn_to_attention": Ir("FFNToAttention"),
    "npu_ffn_worker_batching": Ir("FfnWorkerBatching"),
    "npu_matmul_all_to_all": Ir(
        "MatmulAlltoAll",
        {
            "group": "hcom",
            "all2all_axes": OrDefault("all2all_axes", [-1, -2]),
            "y_dtype": TypeOfResult(""),
        },
    ),
    "npu_quant_gmm_alltoallv": Ir(
        "QuantGroupedMatMulAlltoAllv",
        {
            **_GROUPS,
            "mm_x_quant_mode": OrElse("mm_x_quant_mode", "gmm_x_quant_mode"),
            "mm_weight_quant_mode": OrElse("mm_weight_quant_mode", "gmm_weight_quant_mode"),
            "comm_quant_mode": OrDefault("comm_quant_mode", 0),
            "comm_quant_dtype": Fixed(0),
        },
        only=dict.fromkeys(("comm_quant_dtype", "comm_quant_scale")),
    ),
    "npu_quant_matmul_all_to_all": Ir(
        "MatmulAlltoAll",
        {
            **_operands("x1"),
            **_TO_ALL,
            "all2all_axes": OrDefault("all2all_axes", [-1, -2]),
            "x1_quant_mode": OrDefault("x1_quant_mode", 0),
            "x2_quant_mode": OrDefault("x2_quant_mode", 0),
        },
        only=_TO_ALL_ONLY,
    ),
    "npu_quant_mm_reduce_scatter": Ir(
        "MatmulReduceScatterV2",
        {
            **_operands("x1", x1="input"),
            **_GROUP,
            "rank_size": "world_size",
            "is_amax_out": "amax_output",
            "y_dtype": TypeOfResult("y_dtype"),
            # what products on 910B and 910C do; Ascend 950 takes "ai_cpu"
            "comm_mode": OrDefault("comm_mode", "aiv"),
        },
    ),
}
