"""Prototypes: quantisation, dequantisation and quantised products."""

from __future__ import annotations

ROWS = r"""
AddRmsNormDynamicMxQuant(x1, x2, gamma, beta?) -> (y, x, mxscale, rstd) {epsilon: float = 1e-06;
    scale_alg: int = 0; round_mode: str = "rint"; dst_type: int = 40; output_rstd: bool = False}
AddRmsNormDynamicQuant(x1, x2, gamma, smooth_scale1?, smooth_scale2?, beta?) -> (y1, y2, x, scale1,
    scale2) {epsilon: float = 1e-06; output_mask: bools = []; dst_type: int = 2}
AddRmsNormQuant(x1, x2, gamma, scales1, scales2?, zero_points1?, zero_points2?, beta?) -> (y1, y2, x) {axis: int = -1;
    epsilon: float = 1e-06; div_mode: bool = True; dst_type: int = 2}
AntiMxQuant(x, mxscale) -> y {axis: int = -1; dst_type: int = 27}
AscendAntiQuant(x) -> y {scale: float; offset: float; dtype: int = 0; sqrt_mode: bool = False}
AscendAntiQuantV2(x, scale, offset?) -> y {dst_type: int = 1; sqrt_mode: bool = False}
AscendDequant(x, deq_scale) -> y {sqrt_mode: bool = False; relu_flag: bool = False; dtype: int = 0}
AscendDequantS16(x0, deq_scale, x1?) -> y {relu_flag: bool = False}
AscendQuant(x) -> y {scale: float; offset: float; sqrt_mode: bool = False; round_mode: str = "Round";
    dst_type: int = 2}
AscendQuantV2(x, scale, offset?) -> y {sqrt_mode: bool = False; round_mode: str = "round"; dst_type: int =
    2; axis: int = -1}
AscendWeightQuant(x, offset) -> y {dst_type: int = 2}
DequantBias(x, weight_scale, activate_scale?, bias?) -> y {output_dtype: int}
Dequantize(x, min_range, max_range) -> y {mode: str = "MIN_COMBINED"}
DequantSwigluQuant(x, weight_scale?, activation_scale?, bias?, quant_scale?, quant_offset?, group_index?)
    -> (y, scale) {activate_left: bool = False; quant_mode: str = "static"; dst_type: int; round_mode: str
    = "rint"; activate_dim: int; swiglu_mode: int = 0; clamp_limit: float = 7.0; glu_alpha: float = 1.702;
    glu_bias: float = 1.0}
DynamicBlockMxQuant(x) -> (y, scale1, scale2) {round_mode: str = "rint"; dst_type: int = 40; scale_alg:
    int = 0; dst_type_max: float = 0.0}
DynamicBlockQuant(x) -> (y, scale) {min_scale: float = 0.0; round_mode: str = "rint"; dst_type: int = 35;
    row_block_size: int = 1; col_block_size: int = 128; dst_type_max: float = 0.0}
DynamicDualLevelMxQuant(x, smooth_scale?) -> (y, level0_scale, level1_scale) {round_mode: str = "rint";
    level0_block_size: int = 512; level1_block_size: int = 32}
DynamicMxQuant(x) -> (y, mxscale) {axis: int = -1; round_mode: str = "rint"; dst_type: int = 40;
    blocksize: int = 32; scale_alg: int = 0; dst_type_max: float = 0.0; max_low_bound: float = 0.0}
DynamicMxQuantWithDualAxis(x) -> (y1, mxscale1, y2, mxscale2) {round_mode: str = "rint"; dst_type: int =
    40; scale_alg: int = 0; dst_type_max: float = 0.0}
DynamicQuant(x, smooth_scales?, group_index?) -> (y, scale) {dst_type: int = 2}
DynamicQuantV2(x, smooth_scales?, group_index?) -> (y, scale, offset) {dst_type: int = 2;
    is_symmetrical: bool = False; quant_mode: str = "pertoken"; dst_type_max: float = 0.0}
FakeQuantWithMinMaxArgs(x) -> y {min: float = -6.0; max: float = 6.0; num_bits: int = 8; narrow_range:
    bool = False}
FakeQuantWithMinMaxVars(x, min, max) -> y {num_bits: int = 8; narrow_range: bool = False}
FakeQuantWithMinMaxVarsPerChannel(x, min, max) -> y {num_bits: int = 8; narrow_range: bool = False}
FlatQuant(x, kronecker_p1, kronecker_p2, group_list?) -> (out, quant_scale) {clip_ratio: float = 1.0; dst_dtype:
    int = 29; dst_type_max: float = 0.0; group_list_type: int = 0}
FusedQuantMatMul(x1, x2, bias?, x1_scale?, x2_scale?, y_scale?, x1_offset?, x2_offset?, y_offset?,
    x2_table?, x3?) -> y {dtype: int; compute_type: int = -1; transpose_x1: bool = False; transpose_x2:
    bool = False; group_size: int = -1; fused_op_type: str = ""}
GeluQuant(x, input_scale?, input_offset?) -> (y, out_scale) {approximate: str = "none"; quant_mode: str =
    "dynamic"; dst_type: int = 2; round_mode: str = "rint"}
GroupedDynamicBlockQuant(x, group_list) -> (y, scale) {min_scale: float = 0.0; round_mode: str = "rint";
    dst_type: int = 35; row_block_size: int = 1; col_block_size: int = 128; group_list_type: int = 0;
    dst_type_max: float = 0.0}
GroupedDynamicMxQuant(x, group_index) -> (y, mxscale) {round_mode: str = "rint"; dst_type: int = 35;
    blocksize: int = 32; scale_alg: int = 0; dst_type_max: float = 0.0}
GroupedQuantMax(x, scale, group_list) -> (y, amax) {round_mode: str = "rint"; dst_type: int = 35}
GroupQuant(x, scale, group_index, offset?) -> y {dst_type: int = 2}
QuantBatchMatmul(x1, x2, bias, deq_scale) -> y {adj_x1: bool = False; adj_x2: bool = False}
QuantBatchMatmulInplaceAdd(x1, x2, x2_scale, y, x1_scale?) -> y {transpose_x1: bool = False; transpose_x2:
    bool = False; group_size: int = 0}
QuantBatchMatmulV3(x1, x2, scale, offset?, bias?, pertoken_scale?) -> y {dtype: int; transpose_x1: bool =
    False; transpose_x2: bool = False}
QuantBatchMatmulV4(x1, x2, bias?, x1_scale?, x2_scale?, y_scale?, x1_offset?, x2_offset?, y_offset?,
    x2_table?) -> y {dtype: int; compute_type: int = -1; transpose_x1: bool = False; transpose_x2: bool =
    False; group_size: int = -1}
QuantConv2D(x, filter, scale, bias?, offset?) -> y {dtype: int; strides: ints; pads: ints; dilations: ints
    = [1, 1, 1, 1]; groups: int = 1; data_format: str = "NHWC"; offset_x: int = 0; round_mode: str =
    "rint"}
Quantize(x, scales, zero_points?) -> y {dtype: str; axis: int = 1}
QuantizedResizeBilinear(images, size, min, max) -> (resized_images, y_min, y_max) {align_corners: bool =
    False; half_pixel_centers: bool = False}
QuantMatmulDequant(x, quantized_weight, weight_scale, bias?, x_scale?, x_offset?, smooth_scale?) -> y
    {x_quant_mode: str = "pertoken"; transpose_weight: bool = True}
QuantMatmulReduceSum(x1, x2, dims, bias?, x1_scale?, x2_scale?, y_scale?, x1_offset?, x2_offset?,
    y_offset?, x2_table?) -> y {dtype: int; compute_type: int = -1; transpose_x1: bool = False;
    transpose_x2: bool = False; group_size: int = -1; keep_dims: bool = False}
QuantMax(x, scale) -> (y, amax) {round_mode: str = "rint"; dst_type: int = 35}
QuantUpdateScatter(var, indices, updates, quant_scales, quant_zero_points?) -> var {reduce: str; axis: int
    = -2; quant_axis: int = -1; round_mode: str = "rint"}
RmsNormDynamicMxQuant(x, gamma, beta?) -> (y, mxscale, rstd) {epsilon: float = 1e-06; scale_alg: int = 0;
    round_mode: str = "rint"; dst_type: int = 40; output_rstd: bool = False}
RotateQuant(x, rot, alpha?) -> (y, scale) {y_dtype: int = 2; axis: int = -1; round_mode: str =
    "rint"; scale_alg: int = 0; dst_type_max: float = 0.0; trans: bool = False}
SwigluMxQuant(x, group_index?) -> (y, mxscale) {activate_dim: int = -1; activate_left: bool = False;
    swiglu_mode: int = 0; clamp_limit: float = 7.0; glu_alpha: float = 1.702; glu_bias: float = 1.0;
    group_mode: int = 0; axis: int = -1; dst_type: int = 40; round_mode: str = "rint"; scale_alg: int = 0;
    max_dtype_value: float = 0.0}
TransposeQuantBatchMatMul(x1, x2, bias?, x1_scale?, x2_scale?) -> y {dtype: int; group_size: int = 0;
    perm_x1: ints = [1, 0, 2]; perm_x2: ints = [0, 1, 2]; perm_y: ints = [1, 0, 2]; batch_split_factor:
    int = 1}
TransQuantParamV2(scale, offset?) -> y {round_mode: int = 0}
WeightQuantBatchMatmulV2(x, weight, antiquant_scale, antiquant_offset?, quant_scale?, quant_offset?,
    bias?) -> y {transpose_x: bool = False; transpose_weight: bool = False; antiquant_group_size: int = 0;
    dtype: int = -1; inner_precise: int = 0}
"""
