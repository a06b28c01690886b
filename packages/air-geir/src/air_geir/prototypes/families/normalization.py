"""Prototypes: normalisation and softmax."""

from __future__ import annotations

ROWS = r"""
AddRmsNorm(x1, x2, gamma) -> (y, rstd, x) {epsilon: float = 1e-06}
AddRmsNormCast(x1, x2, gamma) -> (y1, y2, rstd, x) {epsilon: float = 1e-06}
BatchNorm(x, scale, offset, mean?, variance?) -> (y, batch_mean, batch_variance, reserve_space_1,
    reserve_space_2, reserve_space_3) {epsilon: float = 0.0001; data_format: str = "NHWC"; is_training:
    bool = True}
BatchNorm3D(x, scale, offset, mean?, variance?) -> (y, batch_mean, batch_variance, reserve_space_1,
    reserve_space_2) {epsilon: float = 0.0001; data_format: str = "NCDHW"; is_training: bool = True}
BatchNormExt2(input_x, input_scale, input_offset, input_mean?, input_variance?) -> (output_y, output_mean,
    output_variance, output_reserve_space_1, output_reserve_space_2) {epsilon: float = 0.0001;
    data_format: str = "NHWC"; is_training: bool = True}
BatchNormV3(x, weight, bias, running_mean, running_var) -> (y, running_mean, running_var, save_mean, save_rstd)
    {epsilon: float = 1e-05; momentum: float = 0.1; is_training: bool = True}
BNInfer(x, scale, offset, mean, variance) -> y {epsilon: float}
BNInference(x, mean, variance, momentum, scale?, offset?) -> y {epsilon: float = 1e-05; use_global_stats:
    bool = True; mode: int = 1}
BNInferenceD(x, mean, variance, scale?, b?) -> y {momentum: float = 0.9; epsilon: float = 1e-05;
    use_global_stats: bool = True; mode: int = 1}
BNLL(x) -> y
ClipByNormNoDivSum(x, greater_zeros, select_ones, maximum_ones) -> y
EuclideanNorm(x, axes) -> y {keep_dims: bool = False}
EuclideanNormD(x) -> y {axes: ints = []; keep_dims: bool = False}
FusedBatchNormV2(x, scale, offset, mean?, variance?) -> (y, batch_mean, batch_variance, reserve_space_1,
    reserve_space_2) {epsilon: float = 0.0001; data_format: str = "NHWC"; is_training: bool = True}
GroupNorm(x, gamma, beta) -> (y, mean, variance) {num_groups: int; data_format: str = "NHWC"; eps: float =
    0.0001; is_training: bool = True}
GroupNormRelu(x, gamma, beta) -> y {num_groups: int; eps: float = 1e-05}
GroupNormSilu(x, gamma?, beta?) -> (y, mean, variance) {num_groups: int; eps: float = 0.0001}
GroupNormV2(x, gamma, beta) -> (y, mean, rstd) {num_groups: int; data_format: str = "NHWC"; eps: float =
    1e-05; is_training: bool = True}
INInferV2(x, gamma?, beta?, mean?, variance?) -> (y, batch_mean, batch_variance) {epsilon: float = 1e-05}
INInferV2D(x, gamma?, beta?, mean?, variance?, variance_sqrt?) -> (y, batch_mean, batch_variance)
InstanceNorm(x, gamma, beta) -> (y, mean, variance) {data_format: str = "NDHWC"; epsilon: float = 1e-06}
InstanceNormV2(x, gamma?, beta?, mean?, variance?) -> (y, batch_mean, batch_variance) {is_training: bool =
    True; momentum: float = 0.1; epsilon: float = 1e-05}
L2Loss(x) -> y
L2Normalize(x) -> y {axis: ints = []; eps: float = 0.0001}
LayerNorm(x, gamma, beta) -> (y, mean, variance) {begin_norm_axis: int = 0; begin_params_axis: int = 0;
    epsilon: float = 1e-07}
LayerNormV3(x, gamma, beta) -> (y, mean, rstd) {begin_norm_axis: int = 0; begin_params_axis: int = 0;
    epsilon: float = 1e-05}
LayerNormV4(x, normalized_shape, gamma?, beta?) -> (y, mean, rstd) {epsilon: float = 1e-05}
LogSoftmaxV2(logits) -> logsoftmax {axes: ints = [-1]}
LpNorm(x) -> y {p: int = 2; axes: ints = []; keepdim: bool = False; epsilon: float = 1e-12}
LpNormReduce(x) -> y {p: int = 2; axes: ints = []; keepdim: bool = False; epsilon: float = 1e-12}
LpNormReduceV2(x) -> y {p: float = 2.0; axes: ints = []; keepdim: bool = False; epsilon: float = 1e-12}
LpNormUpdate(x) -> y {p: int = 2; epsilon: float = 1e-12}
LpNormUpdateV2(x) -> y {p: float = 2.0; epsilon: float = 1e-12}
LpNormV2(x) -> y {p: float = 2.0; axes: ints = []; keepdim: bool = False; epsilon: float = 1e-12}
LRN(x) -> y {depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; norm_region:
    str = "ACROSS_CHANNELS"}
MaskedSoftmaxWithRelPosBias(x, atten_mask?, relative_pos_bias) -> y {scale_value: float = 1.0;
    inner_precision_mode: int = 0}
Normal(mean, std) -> y
Normalize(x1, x2) -> y {across_spatial: bool = True; channel_shared: bool = True; eps: float = 1e-10}
NormalizeBatch(input_x, seq_len) -> output_y {normalize_type: str; epsilon: float = 1e-05}
NormalizeV2(x, mean, variance) -> y {dtype: dtype = FLOAT}
ParameterizedTruncatedNormal(shape, means, stdevs, min, max) -> y {seed: int = 0; seed2: int = 0}
RmsNorm(x, gamma) -> (y, rstd) {epsilon: float = 1e-06}
ScaledMaskedSoftmax(x, mask?) -> y {scale: float = 1.0; fixed_triu_mask: bool = False}
SoftmaxFocalLoss(pred, target, weight?) -> y {gamma: float = 2.0; alpha: float = 0.25; reduction: str =
    "mean"}
SoftmaxV2(x) -> y {axes: ints = [-1]; half_to_float: bool = False}
StatefulStandardNormalV2(x, algorithm, shape) -> y
StatefulTruncatedNormal(x, algorithm, shape) -> y
TruncatedNormal(shape) -> y {seed: int = 0; seed2: int = 0; dtype: dtype = FLOAT}
"""
