"""Rows of torch_npu's operators on types that torch does not have, or has no kernels for: four bits, eight with scales.

The results of such a type are tensors of bytes for torch (`Ir.held`), and so are the operands (`ReadAs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from air_fxpasses.npu_cards import (
    FOUR_BITS,
    HIFLOAT8,
    INT4,
    SHARED_EXPONENT,
    Code,
    Fixed,
    Ir,
    OrDefault,
    ReadAs,
    Respelled,
    Source,
    ThreeInOne,
    TypeNumber,
)

_FLOAT4: Final = 296
_BYTES: Final = {**FOUR_BITS, torch.uint8: HIFLOAT8}
_EXPONENTS: Final = {torch.uint8: SHARED_EXPONENT}
_TO: Final = TypeNumber("dst_type")
_NO_DEVIATION: Final = {"rstd": ""}
_SCALED: Final[Mapping[str, Code | str]] = {"y": "dst_type", "mxscale": SHARED_EXPONENT}
_PRODUCT: Final[Mapping[str, Source]] = {
    "x1": ReadAs("x1", "x1_dtype", FOUR_BITS),
    "x2": ReadAs("x2", "x2_dtype", FOUR_BITS, times="x1"),
    "y": "input",
}
_ADDED: Final = Ir(
    "QuantBatchMatmulInplaceAdd",
    {
        **_PRODUCT,
        "x2_scale": ReadAs("x2_scale", "x2_scale_dtype"),
        "x1_scale": ReadAs("x1_scale", "x1_scale_dtype"),
        "group_size": ThreeInOne("group_sizes"),
    },
)
_GROUPS_ADDED: Final = Ir(
    "QuantGroupedMatmulInplaceAdd",
    {
        **_PRODUCT,
        "scale2": ReadAs("x2_scale", "x2_scale_dtype"),
        "scale1": ReadAs("x1_scale", "x1_scale_dtype"),
        "group_list_type": OrDefault("group_list_type", 0),
        "group_size": Fixed(0),
    },
    ignored=("group_sizes",),
)

_MAX: Final = {"dst_type": TypeNumber("dst_dtype")}

#: An operator, the argument with which another row computes it, and that row.
WITH: Final[Mapping[str, tuple[str, Ir]]] = {
    "npu_quant_max": ("group_list", Ir("GroupedQuantMax", _MAX, held={"y": "dst_dtype"})),
}

ROWS: Final[Mapping[str, Ir]] = {
    "_npu_rms_norm_backward_quant": Ir(
        "RmsNormGradQuant",
        {"scales_x": "scale_x", "dst_type": _TO, "div_mode": OrDefault("div_mode", True)},
        held={"dx": "dst_type"},
    ),
    "npu_add_quant_gmm": _GROUPS_ADDED,
    "npu_add_quant_gmm_": _GROUPS_ADDED,
    "npu_add_quant_matmul": _ADDED,
    "npu_add_quant_matmul_": _ADDED,
    "npu_add_rms_norm_dynamic_mx_quant": Ir(
        "AddRmsNormDynamicMxQuant",
        {"dst_type": _TO, "output_rstd": Fixed(False)},
        held=_SCALED,
        needs=_NO_DEVIATION,
    ),
    "npu_anti_mx_quant": Ir(
        "AntiMxQuant",
        {
            "x": ReadAs("x", "src_type"),
            "mxscale": ReadAs("mxscale", standing_for=_EXPONENTS),
            "dst_type": _TO,
            "axis": OrDefault("axis", -1),
        },
    ),
    "npu_anti_quant": Ir(
        "AscendAntiQuantV2",
        {"x": ReadAs("x", "src_dtype", _BYTES), "dst_type": TypeNumber("dst_dtype", torch.float16)},
    ),
    "npu_dynamic_block_mx_quant": Ir(
        "DynamicBlockMxQuant",
        {"x": "input", "dst_type": _TO},
        held={"y": "dst_type", "scale1": SHARED_EXPONENT, "scale2": SHARED_EXPONENT},
    ),
    "npu_dynamic_block_quant": Ir("DynamicBlockQuant", {"dst_type": _TO}, held={"y": "dst_type"}),
    "npu_dynamic_dual_level_mx_quant": Ir(
        "DynamicDualLevelMxQuant",
        {"x": "input", "level0_block_size": Fixed(512), "level1_block_size": Fixed(32)},
        held={"y": _FLOAT4, "level1_scale": SHARED_EXPONENT},
    ),
    "npu_dynamic_mx_quant": Ir(
        "DynamicMxQuant",
        {"x": "input", "dst_type": _TO, "blocksize": "block_size", "scale_alg": OrDefault("scale_alg", 0)},
        held=_SCALED,
    ),
    "npu_dynamic_mx_quant_with_dual_axis": Ir(
        "DynamicMxQuantWithDualAxis",
        {"x": "input", "dst_type": _TO, "dst_type_max": OrDefault("dst_type_max", 0.0)},
        held={"y1": "dst_type", "mxscale1": SHARED_EXPONENT, "y2": "dst_type", "mxscale2": SHARED_EXPONENT},
    ),
    "npu_dynamic_quant_asymmetric": Ir(
        "DynamicQuantV2",
        {"x": "input", "dst_type": TypeNumber("dst_type", torch.int8), "is_symmetrical": Fixed(False)},
        held={"y": "dst_type"},
    ),
    "npu_grouped_dynamic_block_quant": Ir(
        "GroupedDynamicBlockQuant", {"dst_type": _TO}, held={"y": "dst_type"}
    ),
    "npu_grouped_dynamic_mx_quant": Ir(
        "GroupedDynamicMxQuant",
        {
            "dst_type": _TO,
            "scale_alg": OrDefault("scale_alg", 0),
            "dst_type_max": OrDefault("dst_type_max", 0.0),
        },
        held=_SCALED,
    ),
    "npu_kronecker_quant": Ir(
        "FlatQuant",
        {
            "clip_ratio": OrDefault("clip_ratio", 1.0),
            "dst_dtype": Respelled("dst_dtype", dict.fromkeys((None, 3, torch.int32), 29)),
            "dst_type_max": OrDefault("dst_type_max", 0.0),
        },
        held={"out": INT4},
    ),
    "npu_kv_quant_sparse_flash_attention": Ir(
        "KvQuantSparseFlashAttention",
        {"key": ReadAs("key", "key_dtype"), "value": ReadAs("value", "value_dtype")},
    ),
    "npu_quant_lightning_indexer": Ir(
        "QuantLightningIndexer",
        {"query": ReadAs("query", "query_dtype"), "key": ReadAs("key", "key_dtype")},
    ),
    "npu_quant_max": Ir("QuantMax", _MAX, held={"y": "dst_dtype"}),
    "npu_rms_norm_dynamic_mx_quant": Ir(
        "RmsNormDynamicMxQuant",
        {"dst_type": _TO, "output_rstd": Fixed(False)},
        held=_SCALED,
        needs=_NO_DEVIATION,
    ),
    "npu_rotate_quant": Ir(
        "RotateQuant",
        {
            "rot": "rotation",
            "y_dtype": TypeNumber("dst_dtype", torch.int8),
            "axis": OrDefault("axis", -1),
            "round_mode": OrDefault("round_mode", "rint"),
            "scale_alg": OrDefault("scale_alg", 0),
            "dst_type_max": OrDefault("dst_type_max", 0.0),
            "trans": OrDefault("transpose_y", False),
        },
        held={"y": "dst_dtype"},
    ),
    "npu_swiglu_mx_quant": Ir("SwigluMxQuant", {"dst_type": _TO}, held=_SCALED),
}
