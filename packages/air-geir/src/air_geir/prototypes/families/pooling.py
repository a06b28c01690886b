"""Prototypes: pooling."""

from __future__ import annotations

ROWS = r"""
AdaptiveAvgPool2d(x) -> y {output_size: ints}
AdaptiveMaxPool2d(x) -> (y, argmax) {output_size: ints}
AvgPool(x) -> y {ksize: ints; strides: ints; padding: str; data_format: str = "NHWC"}
AvgPool1D(x) -> y {ksize: int; strides: int; pads: ints; ceil_mode: bool = False; count_include_pad: bool
    = False}
AvgPool1DD(x, assist_matrix) -> y {ksize: int; strides: int; pads: ints; ceil_mode: bool = False;
    count_include_pad: bool = False}
AvgPool3D(x) -> y {ksize: ints; strides: ints; pads: ints; ceil_mode: bool = False; count_include_pad:
    bool = True; divisor_override: int = 0; data_format: str = "NDHWC"}
AvgPool3DD(x, filter?, multiplier?) -> y {ksize: ints; strides: ints; pads: ints; ceil_mode: bool = False;
    count_include_pad: bool = True; divisor_override: int = 0; data_format: str = "NDHWC"}
AvgPoolUpdate(x1, x2) -> y {ksize: ints; strides: ints; padding_mode: str = "CALCULATED"; pads: ints = [0,
    0, 0, 0]; data_format: str = "NHWC"; ceil_mode: bool = False; exclusive: bool = True}
AvgPoolV2(x) -> y {ksize: ints; strides: ints; padding_mode: str = "CALCULATED"; pads: ints = [0, 0, 0,
    0]; data_format: str = "NCHW"; global_pooling: bool = False; ceil_mode: bool = False; exclusive: bool
    = True; divisor_override: int = 0}
FractionalAvgPool(x) -> (y, row_pooling_sequence, col_pooling_sequence) {pooling_ratio: floats = [];
    pseudo_random: bool = False; overlapping: bool = False; deterministic: bool = False; seed: int = 0;
    seed2: int = 0}
FractionalMaxPool(x) -> (y, row_pooling_sequence, col_pooling_sequence) {pooling_ratio: floats = [];
    pseudo_random: bool = False; overlapping: bool = False; deterministic: bool = False; seed: int = 0;
    seed2: int = 0}
GlobalAveragePool(x) -> y
GlobalLpPool(x) -> y {p: float = 2.0}
MaxPool(x) -> y {ksize: ints; strides: ints; padding: str; data_format: str = "NHWC"}
MaxPool3D(x) -> y {ksize: ints; strides: ints; padding: str; pads: ints = [0,0,0,0,0,0]; dilation: ints =
    [1,1,1,1,1]; ceil_mode: int = 0; data_format: str = "NDHWC"}
MaxPool3DWithArgmax(x) -> (y, argmax) {ksize: ints; strides: ints; pads: ints; dilation: ints = [1, 1, 1,
    1, 1]; ceil_mode: bool = False; data_format: str = "NCDHW"; argmax_type: str = "bitmask"}
MaxPool3DWithArgmaxV2(x) -> (y, argmax) {ksize: ints; strides: ints; pads: ints; dilation: ints = [1, 1,
    1]; ceil_mode: bool = False; data_format: str = "NCDHW"; dtype: int = 3}
MaxPoolExt2(x) -> y {ksize: ints; strides: ints; padding: str; data_format: str = "NHWC"}
MaxPoolV2(x, ksize, strides) -> y {padding: str; data_format: str = "NHWC"}
MaxPoolV3(x) -> y {ksize: ints; strides: ints; padding_mode: str = "CALCULATED"; pads: ints = [0,0,0,0];
    data_format: str = "NCHW"; global_pooling: bool = False; ceil_mode: bool = False}
MaxPoolWithArgmax(x) -> (y, argmax) {ksize: ints; strides: ints; padding: str; Targmax: int = 7}
MaxPoolWithArgmaxV1(x) -> (y, argmax) {ksize: ints; strides: ints; pads: ints; dtype: int = 3; dilation:
    ints = [1, 1, 1, 1]; ceil_mode: bool = False}
MaxPoolWithArgmaxV2(x) -> (y, argmax) {ksize: ints; strides: ints; pads: ints; dtype: int = 3; dilation:
    ints = [1, 1, 1, 1]; ceil_mode: bool = False}
MaxPoolWithArgmaxV3(x) -> (y, argmax) {ksize: ints; strides: ints; pads: ints; dtype: int = 3; dilation:
    ints = [1, 1]; ceil_mode: bool = False; data_format: str = "NCHW"}
NMSWithMask(box_scores) -> (selected_boxes, selected_idx, selected_mask) {iou_threshold: float = 0.5}
NonMaxSuppressionV6(boxes, scores, max_output_size?, iou_threshold?, score_threshold?) -> selected_indices
    {center_point_box: int = 0; max_boxes_size: int = 0}
Pooling(x) -> y {mode: int = 0; global_pooling: bool = False; window: ints = [1,1]; stride: ints = [1,1];
    pad: ints = [0,0,0,0]; dilation: ints = [1,1,1,1]; ceil_mode: int = 0; data_format: str = "NCHW"}
ROIAlign(features, rois, rois_n?) -> y {spatial_scale: float; pooled_height: int; pooled_width: int;
    sample_num: int = 2; roi_end_mode: int = 1}
"""
