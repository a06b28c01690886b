"""Prototypes: views, layout and shape."""

from __future__ import annotations

ROWS = r"""
_ParallelConcatStart() -> y {dtype: dtype = INT32; shape: ints = []}
AscendPadding(x) -> y {pad_dim_size: int = 8}
AsStrided(x, size, stride, storage_offset) -> y
Batch(x_tensors*) -> (y_index, y_id, y_tensors*) {num_batch_threads: int; max_batch_size: int;
    max_enqueued_batches: int = 10; batch_timeout_micros: int; allowed_batch_sizes: ints = [];
    grad_timeout_micros: int; container: str = ""; shared_name: str = ""; batching_queue: str = ""}
BatchDilatePolys(polys_data, polys_offset, polys_size, score, min_border, min_area_thr, score_thr,
    expands_cale) -> (dilated_polys_data, dilated_polys_offset, dilated_polys_size)
BatchEnqueue(x, queue_id?) -> enqueue_count {batch_size: int = 8; queue_name: str = ""; queue_depth: int =
    100; pad_mode: str = "REPLICATE"}
BatchToSpace(x, crops) -> y {block_size: int}
BatchToSpaceD(x) -> y {block_size: int; crops: ints}
BatchToSpaceND(x, block_shape, crops) -> y
BatchToSpaceNDD(x) -> y {block_shape: ints; crops: ints}
Bitcast(x) -> y {type: dtype; keep_dim: bool = False}
BroadcastArgs(x1, x2) -> y
BroadcastTo(x, shape) -> y
BroadcastToD(x) -> y {shape: ints}
Concat(concat_dim, x*) -> y {N: int = 1}
ConcatD(x*) -> y {concat_dim: int; N: int = 1}
ConcatFromSequence(handle) -> y {axis: int; new_axis: int = 0}
ConcatOffset(concat_dim, x*) -> y* {N: int}
ConcatOffsetD(x*) -> y* {concat_dim: int; N: int}
ConcatV2(x*, concat_dim) -> y {N: int = 1}
ConcatV2D(x*) -> y {concat_dim: int; N: int = 1}
ConfusionTranspose(x, shape) -> y {perm: ints; transpose_first: bool}
ConfusionTransposeD(x) -> y {perm: ints; shape: ints; transpose_first: bool}
ConjugateTranspose(x, perm) -> y
Copy(x) -> y* {N: int}
DataFormatDimMap(x) -> y {src_format: str = "NHWC"; dst_format: str = "NCHW"}
DataFormatVecPermute(x) -> y {src_format: str = "NHWC"; dst_format: str = "NCHW"}
DepthToSpace(x) -> y {block_size: int; mode: str = "DCR"; data_format: str = "NHWC"}
EnsureShape(input) -> output {shape: ints}
Expand(x, shape) -> y
ExpandD(x) -> y {shape: ints}
ExpandDims(x, axis) -> y
Flatten(x) -> y {axis: int = 1}
FlattenV2(x) -> y {axis: int = 1; end_axis: int = -1}
Identity(x) -> y
IdentityN(x*) -> y*
LinSpace(start, stop, num) -> output
LinSpaceD(assist, start, stop, num) -> output
LogSpaceD(assist) -> y {start: float; end: float; steps: int = 100; base: float = 10.0; dtype: int = 1}
MirrorPad(x, paddings) -> y {mode: str}
Pack(x*) -> y {axis: int = 0; N: int}
Pad(x, paddings) -> y
PadD(x) -> y {paddings: intss}
PadV2(x, paddings, constant_values) -> y
PadV2D(x, constant_values) -> y {paddings: intss}
PadV3(x, paddings, constant_values?) -> y {mode: str = "constant"; paddings_contiguous: bool = True}
PadV3D(x) -> y {paddings: intss; constant_values: int = 0; mode: str = "constant"; paddings_contiguous:
    bool = True}
ParallelConcat(values*) -> output_data {shape: ints; N: int}
ParallelDynamicStitch(indices*, x*) -> y {N: int = 1}
Permute(x) -> y {order: ints = [0]}
Rank(x) -> y
RepeatInterleave(x, repeats) -> y {axis: int = 1000}
Reshape(x, shape) -> y {axis: int = 0; num_axes: int = -1}
ReverseSequence(x, seq_lengths) -> y {seq_dim: int; batch_dim: int = 0}
ReverseV2(x, axis) -> y
ReverseV2D(x) -> y {axis: ints}
Roll(x) -> y {shifts: ints; dims: ints = []}
RollV2(input, shift, axes) -> output
ScaleAndTranslate(images, size, scale, translation) -> y {kernel_type: str = "lanczos3"; antialias: bool =
    True}
Shape(x) -> y {dtype: int = 3}
ShapeN(x*) -> y* {dtype: int = 3}
ShuffleChannel(x) -> y {group: int = 1}
SignBitsPack(x) -> y {size: int}
Size(x) -> y {dtype: int = 3}
SpaceToBatch(x, paddings) -> y {block_size: int}
SpaceToBatchD(x) -> y {block_size: int; paddings: ints}
SpaceToBatchND(x, block_shape, paddings) -> y
SpaceToBatchNDD(x) -> y {block_shape: ints; paddings: ints}
SpaceToDepth(x) -> y {block_size: int; data_format: str = "NHWC"}
SpatialTransformer(x, theta?) -> y {output_size: ints = [-1, -1]; default_theta: floats = [];
    align_corners: bool = False; use_default_theta: ints = []}
SpatialTransformerD(x, theta?) -> y {output_size: ints = [-1, -1]; default_theta: floats = [];
    align_corners: bool = False; use_default_theta: bools = []}
Split(split_dim, x) -> y* {num_split: int}
SplitD(x) -> y* {split_dim: int; num_split: int}
SplitToSequence(x, split?) -> handle {axis: int = 0; keepdims: bool = True}
SplitV(x, size_splits, split_dim) -> y* {num_split: int}
SplitVD(x) -> y* {size_splits: ints; split_dim: int; num_split: int}
Squeeze(x) -> y {axis: ints = []}
SqueezeV2(x) -> y {axis: ints = []}
SqueezeV3(x, axes?) -> y
StridedRead(x) -> y {axis: int = 1; stride: int = 1}
StridedWrite(x) -> y {axis: int = 1; stride: int = 1}
SwinTransformerLnQKV(x, gamma, beta, weight, bias) -> (query_output, key_output, value_output) {head_num:
    int; head_dim: int; seq_length: int; shifts: ints = []; epsilon: float = 1e-07}
TensorMove(x) -> y
Tile(x, multiples) -> y
TileD(x) -> y {multiples: ints}
TileWithAxis(x) -> y {axis: int = 1; tiles: int}
TransData(src) -> dst {src_format: str; dst_format: str; src_subformat: int = 0; dst_subformat: int = 0;
    groups: int = 1}
Transpose(x, perm) -> y
TransposeD(x) -> y {perm: ints}
TransShape(x) -> y {outShape: ints = []}
Unsqueeze(x) -> y {axes: ints = []}
UnsqueezeV2(x) -> y {axis: ints = []}
UnsqueezeV3(x, axes) -> y
ViewCopy(dst, dst_size, dst_stride, dst_storage_offset, src, src_size, src_stride, src_storage_offset) ->
    dst
"""
