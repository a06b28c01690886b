"""Prototypes: gradients of the other families."""

from __future__ import annotations

ROWS = r"""
AbsGrad(y, dy) -> z
AccumulatorApplyGradient(handle, local_step, gradient) -> () {dtype: dtype}
AccumulatorTakeGradient(handle, num_required) -> y {dtype: dtype}
AcosGrad(y, dy) -> z
AcoshGrad(y, dy) -> z
ActiveRotatedFilterGrad(y_grad, indices) -> x_grad
ActsULQInputGrad(y_grad, clamp_min_mask, clamp_max_mask) -> x_grad
ActULQClampMaxGrad(y_grad, clamp_max_mask, x_clamped_loss) -> clamp_max_grad
ActULQClampMinGrad(y_grad, clamp_min_mask, x_clamped_loss) -> clamp_min_grad
AdaptiveAvgPool2dGrad(input_grad) -> output_grad {orig_input_shape: ints}
ArgMaxGrad(var, indices, updates) -> y {dimension: int}
ArgMaxGradD(var, indices, updates, assist) -> y {dimension: int}
AsinGrad(y, dy) -> z
AsinhGrad(y, dy) -> z
AtanGrad(y, dy) -> z
AttentionQKVGradW(x, query_dx, key_dw?, value_dw?) -> (dw_query, dw_key, dw_value, dbias_query, dbias_key,
    dbias_value) {trans_a: bool = True; trans_b: bool = False; trans_dw: bool = False}
AttentionQKVGradX(ln_dx?, query_dx, key_dw, value_dw, kernel_query, kernel_key, kernel_value) -> dx
    {trans_a: bool = False; trans_b: bool = True}
AttentionScoreGrad(attention_score, dx, query, key, value, scale, drop_mask?) -> (value_dw, query_dx,
    key_dw) {keep_prob: float = 1.0; query_transpose: bool = False; key_transpose: bool = False;
    value_transpose: bool = False; dx_transpose: bool = False; softmax_axes: int = -1}
AUGRUHiddenGradCell(weight_att, dh_pre_t, h, dy, dh, update, update_att, reset, new, hidden_new,
    seq_length?) -> (dh_prev, dgate_h, dnt_x, dw_att_t) {t_state: int = 0; gate_order: str = "zrh"}
AvgPool3DGrad(orig_input_shape, grads) -> output {ksize: ints; strides: ints; pads: ints; ceil_mode: bool
    = False; count_include_pad: bool = True; divisor_override: int = 0; data_format: str = "NDHWC"}
AvgPool3DGradD(grads, filter?, multiplier?) -> output {orig_input_shape: ints; ksize: ints; strides: ints;
    pads: ints; ceil_mode: bool = False; count_include_pad: bool = True; divisor_override: int = 0;
    data_format: str = "NDHWC"}
AvgPoolGrad(orig_input_shape, input_grad) -> out_grad {ksize: ints; strides: ints; padding: str;
    data_format: str = "NHWC"}
AvgPoolGradD(input_grad, mean_matrix, kernel_matrix) -> out_grad {orig_input_shape: ints; ksize: ints;
    strides: ints; padding: str; data_format: str = "NHWC"}
AvgPoolV2Grad(orig_input_shape, input_grad) -> out_grad {ksize: ints; strides: ints; padding_mode: str =
    "CALCULATED"; pads: ints = [0,0,0,0]; data_format: str = "NCHW"; global_pooling: bool = False;
    ceil_mode: bool = False; exclusive: bool = True; divisor_override: int = 0}
AvgPoolV2GradD(input_grad, mean_matrix?, kernel_matrix?) -> out_grad {orig_input_shape: ints; ksize: ints;
    strides: ints; padding_mode: str = "CALCULATED"; pads: ints = [0,0,0,0]; data_format: str = "NCHW";
    global_pooling: bool = False; ceil_mode: bool = False; exclusive: bool = True}
BasicLSTMCellCStateGrad(c, dht, dct, it, jt, ft, ot, tanhct) -> (dgate, dct_1) {forget_bias: float = 1.0;
    activation: str = "tanh"}
BasicLSTMCellInputGrad(dgate, w, dropout_mask?) -> (dxt, dht) {keep_prob: float = 1.0}
BasicLSTMCellWeightGrad(x, h, dgate) -> (dw, db)
BatchNorm3DGrad(y_backprop, x, scale, reserve_space_1, reserve_space_2) -> (x_backprop, scale_backprop,
    offset_backprop, reserve_space_4, reserve_space_5) {epsilon: float = 0.0001; data_format: str =
    "NCDHW"; is_training: bool = True}
BatchNormGrad(y_backprop, x, scale, reserve_space_1, reserve_space_2, reserve_space_3?) -> (x_backprop,
    scale_backprop, offset_backprop, reserve_space_4, reserve_space_5) {epsilon: float = 0.0001;
    data_format: str = "NHWC"; is_training: bool = True}
BatchNormGradExt2(y_backprop, x, scale, reserve_space_1, reserve_space_2) -> (x_backprop, scale_backprop,
    offset_backprop, reserve_space_3, reserve_space_4) {epsilon: float = 0.0001; data_format: str =
    "NHWC"; is_training: bool = True}
BatchNormGradV3(dy, x, weight, running_mean, running_var, save_mean, save_rstd) -> (dx, dweight, dbias)
    {is_training: bool = True; epsilon: float = 1e-05}
BiasAddGrad(x) -> y {data_format: str = "NHWC"}
BinaryCrossEntropyGrad(x, y, grad_output, weight?) -> output {reduction: str = "mean"}
BN3DTrainingReduce(x) -> (sum, square_sum)
BN3DTrainingReduceGrad(grads, x, diff_scale, diff_offset, scale, batch_mean, batch_variance) -> y
    {epsilon: float = 0.0001}
BN3DTrainingUpdate(x, sum, square_sum, scale, offset, mean, variance) -> (y, mean, variance, batch_mean,
    batch_variance) {factor: float; epsilon: float}
BN3DTrainingUpdateGrad(grads, x, batch_mean, batch_variance) -> (diff_scale, diff_offset) {epsilon: float
    = 0.0001}
BNInferGrad(grads, scale, batch_variance) -> x_backprop {epsilon: float = 0.0001}
BNTrainingReduce(x) -> (sum, square_sum)
BNTrainingReduceGrad(grads, x, diff_scale, diff_offset, scale, batch_mean, batch_variance) -> y {epsilon:
    float = 0.0001}
BNTrainingUpdate(x, sum, square_sum, scale, offset, mean, variance) -> (y, mean, variance, batch_mean,
    batch_variance) {factor: float; epsilon: float}
BNTrainingUpdateGrad(grads, x, batch_mean, batch_variance) -> (diff_scale, diff_offset) {epsilon: float =
    0.0001}
BNTrainingUpdateV2(x, sum, square_sum, scale, offset) -> (y, batch_mean, batch_variance) {epsilon: float}
BNTrainingUpdateV3(x, sum, square_sum, scale, offset) -> (y, batch_mean, batch_variance, reserve_1,
    reserve_2) {epsilon: float}
BroadcastGradientArgs(x1, x2) -> (y1, y2)
CdistGrad(grad, x1, x2, cdist) -> y {p: float = 2.0}
CholeskyGrad(x, grad) -> y
CIoUGrad(dy, bboxes, gtboxes, atan_sub) -> (dbboxes, dgtboxes) {trans: bool = False; is_cross: bool =
    True; mode: str = "iou"}
ConfusionMulGrad(input0, input1, input2) -> (output0, output1) {axes: ints = []; keep_dims: bool = False}
ConfusionSoftmaxGrad(grad, x) -> y
Conv2DBackpropFilter(x, filter_size, out_backprop) -> y {strides: ints; pads: ints; dilations: ints = [1,
    1, 1, 1]; groups: int = 1; data_format: str = "NHWC"}
Conv2DBackpropFilterD(x, out_backprop) -> y {filter_size: ints; strides: ints; pads: ints; dilations: ints
    = [1, 1, 1, 1]; groups: int = 1; data_format: str = "NHWC"}
Conv2DBackpropInput(input_size, filter, out_backprop) -> y {strides: ints; pads: ints; dilations: ints =
    [1, 1, 1, 1]; groups: int = 1; data_format: str = "NHWC"}
Conv2DBackpropInputD(filter, out_backprop) -> y {input_size: ints; strides: ints; pads: ints; dilations:
    ints = [1, 1, 1, 1]; groups: int = 1; data_format: str = "NHWC"}
Conv3DBackpropFilter(x, filter_size, out_backprop) -> y {strides: ints; pads: ints; dilations: ints = [1,
    1, 1, 1, 1]; groups: int = 1; data_format: str = "NDHWC"}
Conv3DBackpropFilterD(x, out_backprop) -> y {filter_size: ints; strides: ints; pads: ints; dilations: ints
    = [1, 1, 1, 1, 1]; groups: int = 1; data_format: str = "NDHWC"}
Conv3DBackpropInput(input_size, filter, out_backprop) -> y {strides: ints; pads: ints; dilations: ints =
    [1, 1, 1, 1, 1]; groups: int = 1; data_format: str = "NDHWC"}
Conv3DBackpropInputD(filter, out_backprop) -> y {input_size: ints; strides: ints; pads: ints; dilations:
    ints = [1, 1, 1, 1, 1]; groups: int = 1; data_format: str = "NDHWC"}
CropAndResizeGradBoxes(grads, images, boxes, box_index) -> y {method: str = "bilinear"}
CropAndResizeGradImage(grads, boxes, box_index, image_size) -> y {method: str = "bilinear"; T: dtype}
CTCLossV2Grad(grad_out, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha)
    -> grad {blank: int = 0; reduction: str = "mean"; zero_infinity: bool = False}
DeformableOffsetsGrad(grad, x, offsets) -> (grad_x, grad_offsets) {strides: ints; pads: ints; ksize: ints;
    dilations: ints = [1, 1, 1, 1]; data_format: str = "NCHW"; deformable_groups: int = 1; modulated: bool
    = True}
DeformableRoiPoolGrad(grad, x, rois, offset?) -> (grad_x, grad_offset) {output_size: ints; spatial_scale:
    float = 1.0; sampling_ratio: int = 0; gamma: float = 0.1}
DenseImageWarpGrad(grad, image, flow) -> (grad_image, grad_flow)
DepthwiseConv2DBackpropFilter(input, filter_size, out_backprop) -> filter_grad {strides: ints; dilations:
    ints = [1, 1, 1, 1]; pads: ints; data_format: str = "NHWC"}
DepthwiseConv2DBackpropFilterD(input, out_backprop) -> filter_grad {filter_size: ints; strides: ints;
    dilations: ints = [1, 1, 1, 1]; pads: ints; data_format: str = "NHWC"}
DepthwiseConv2DBackpropInput(input_size, filter, out_backprop) -> input_grad {strides: ints; dilations:
    ints = [1, 1, 1, 1]; pads: ints; data_format: str = "NHWC"}
DepthwiseConv2DBackpropInputD(filter, out_backprop) -> input_grad {input_size: ints; strides: ints;
    dilations: ints = [1, 1, 1, 1]; pads: ints; data_format: str = "NHWC"}
Dilation2DBackpropFilter(x, filter, out_backprop) -> y {strides: ints; rates: ints; padding_mode: str =
    "SAME"; pads: ints = [0, 0, 0, 0]; ceil_mode: bool = False; data_format: str = "NHWC"}
Dilation2DBackpropInput(x, filter, out_backprop) -> y {strides: ints; rates: ints; padding_mode: str =
    "SAME"; pads: ints = [0, 0, 0, 0]; ceil_mode: bool = False; data_format: str = "NHWC"}
DIoUGrad(dy, bboxes, gtboxes) -> (dbboxes, dgtboxes) {trans: bool = False; is_cross: bool = True; mode:
    str = "iou"}
DropoutWithMulsAndSoftmaxGrad(y_grad, mask, softmax_output) -> x_grad {input_keep_prob: float; alpha:
    float; axes: ints = [ -1 ]}
DynamicAUGRUGrad(x, weight_input, weight_hidden, weight_att, y, init_h, h, dy, dh, update, update_att,
    reset, new, hidden_new, seq_length?, mask?) -> (dw_input, dw_hidden, db_input, db_hidden, dx, dh_prev,
    dw_att) {direction: str = "UNIDIRECTIONAL"; cell_depth: int = 1; keep_prob: float = -1.0; cell_clip:
    float = -1.0; num_proj: int = 0; time_major: bool = True; gate_order: str = "zrh"; reset_after: bool =
    True}
DynamicGRUCellGrad(dh_pre_t, h, dy, dh, update, reset, new, hidden_new, init_h, t_state, seq_length?) ->
    (dh_prev, dgate_h, dnt_x) {gate_order: str = "zrh"}
DynamicGRUV2Grad(x, weight_input, weight_hidden, y, init_h, h, dy, dh, update, reset, new, hidden_new,
    seq_length?, mask?) -> (dw_input, dw_hidden, db_input, db_hidden, dx, dh_prev) {direction: str =
    "UNIDIRECTIONAL"; cell_depth: int = 0; keep_prob: float = -1.0; cell_clip: float = -1.0; num_proj: int
    = 0; time_major: bool = True; gate_order: str = "zrh"; reset_after: bool = True}
DynamicLSTMGradCell(init_c, c, dy, dh, dc, i, j, f, o, tanhct, t_state, mask) -> (dgate, dct_1)
    {forget_bias: float = 1.0; activation: str = "tanh"; direction: str = "UNIDIRECTIONAL"; gate_order:
    str = "ijfo"}
DynamicRNNGrad(x, w, b, y, init_h, init_c, h, c, dy, dh, dc, i, j, f, o, tanhct?, seq_length?, mask?,
    wci?, wcf?, wco?) -> (dw, db, dx, dh_prev, dc_prev, dwci*, dwcf*, dwco*) {cell_type: str = "LSTM";
    direction: str = "UNIDIRECTIONAL"; cell_depth: int = 0; use_peephole: bool = False; keep_prob: float =
    -1.0; cell_clip: float = -1.0; num_proj: int = 0; time_major: bool = True; forget_bias: float = 0.0}
DynamicRNNV2Grad(x, w_x, w_h, y, init_h, init_c, h, c, dy, dh, dc, i, j, f, o, tanhct, seq_length?, wci?,
    wcf?, wco?, mask?) -> (dw_x, dw_h, db, dx, dh_prev, dc_prev, dwci*, dwcf*, dwco*) {cell_type: str =
    "LSTM"; direction: str = "UNIDIRECTIONAL"; cell_depth: int = 1; use_peephole: bool = False; keep_prob:
    float = 1.0; cell_clip: float = -1.0; num_proj: int = 0; time_major: bool = True; activation: str =
    "tanh"; recurrent_activation: str = "sigmoid"; gate_order: str = "ijfo"; stateful: bool = False;
    merge_mode: str = "concat"}
EluGrad(grads, activations) -> y
EluGradV2(grads, activations) -> y {alpha: float = 1.0; scale: float = 1.0; input_scale: float = 1.0;
    is_result: bool = False}
EmbeddingApplyAdaGrad(var_handle, lr, grad, keys, global_step) -> var_handle {embedding_dim: int}
EmbeddingDenseGrad(grad, indices) -> y {num_weights: int; padding_idx: int = -1; scale_grad_by_freq: bool
    = False}
FakeQuantWithMinMaxArgsGradient(gradients, x) -> y {min: float = -6.0; max: float = 6.0; num_bits: int =
    8; narrow_range: bool = False}
FakeQuantWithMinMaxVarsGradient(gradients, x, min, max) -> (backprops_wrt_x, backprops_wrt_min,
    backprops_wrt_max) {num_bits: int = 8; narrow_range: bool = False}
FakeQuantWithMinMaxVarsPerChannelGradient(gradients, x, min, max) -> (backprops_wrt_x, backprops_wrt_min,
    backprops_wrt_max) {num_bits: int = 8; narrow_range: bool = False}
FastGeluGrad(dy, x) -> z
FlashAttentionScoreGrad(query, key, value, dy, pse_shift?, drop_mask?, padding_mask?, atten_mask?,
    softmax_max?, softmax_sum?, softmax_in?, attention_in?, prefix?, actual_seq_qlen?, actual_seq_kvlen?,
    q_start_idx?, kv_start_idx?) -> (dq, dk, dv, dpse) {scale_value: float = 1.0; keep_prob: float = 1.0;
    pre_tockens: int = 65536; next_tockens: int = 65536; head_num: int; input_layout: str; inner_precise:
    int = 1; sparse_mode: int = 0}
FractionalAvgPoolGrad(orig_input_tensor_shape, out_backprop, row_pooling_sequence, col_pooling_sequence)
    -> y {overlapping: bool = False}
FractionalMaxPoolGrad(orig_input, orig_output, out_backprop, row_pooling_sequence, col_pooling_sequence)
    -> y {overlapping: bool = False}
FusedBiasLeakyReluGrad(y_grad, features) -> x_grad {negative_slope: float = 0.2; scale: float =
    1.414213562373}
FusedMulAdd(x1, x2, x3) -> y
FusedMulAddAdd(x1, x2, x3, x4) -> y
FusedMulAddN(x1, x2, x3) -> y
FusedMulAddNL2loss(x1, x2, x3) -> (y1, y2)
GeluGrad(dy, x, y) -> z
GeluGradV2(dy, x) -> z {approximate: str = "none"}
GIoUGrad(dy, bboxes, gtboxes) -> (dbboxes, dgtboxes) {trans: bool = False; is_cross: bool = True; mode:
    str = "iou"}
GLUGrad(y_grad, x) -> x_grad {dim: int = -1}
GNTrainingReduce(x) -> (sum, square_sum) {num_groups: int = 2}
GNTrainingUpdate(x, sum, square_sum, scale?, offset?, mean?, variance?) -> (y, batch_mean, batch_variance)
    {num_groups: int = 2; epsilon: float = 0.0001}
GridSampler2DGrad(grad, x, grid) -> (dx, dgrid) {interpolation_mode: str = "bilinear"; padding_mode: str =
    "zeros"; align_corners: bool = False}
GridSampler3DGrad(grad, x, grid) -> (dx, dgrid) {interpolation_mode: str = "bilinear"; padding_mode: str =
    "zeros"; align_corners: bool = False}
GroupNormGrad(dy, mean, rstd, x, gamma) -> (dx, dgamma, dbeta) {num_groups: int; data_format: str =
    "NCHW"; dx_is_require: bool = True; dgamma_is_require: bool = True; dbeta_is_require: bool = True}
GRUV2HiddenGradCell(dh_pre_t, h, dy, dh, update, reset, new, hidden_new, seq_length?) -> (dh_prev,
    dgate_h, dnt_x) {t_state: int = 0; gate_order: str = "zrh"}
HardShrinkGrad(gradients, features) -> backprops {lambd: float = 0.5}
HardSigmoidGrad(grads, input_x) -> y {alpha: float = 0.16666666; beta: float = 0.5}
HardSwishGrad(grad, x) -> y
HardtanhGrad(result, grad) -> y {min_val: float = -1.0; max_val: float = 1.0}
IgammaGradA(a, x) -> z
InstanceNormGrad(dy, x, variance, mean, gamma) -> (pd_x, pd_gamma, pd_beta)
INTrainingReduceGrad(dy, x, variance, mean, res_gamma, res_beta, gamma) -> pd_x
INTrainingReduceV2(x) -> (sum, square_sum)
INTrainingUpdateGrad(dy, x, variance, mean) -> (res_gamma, res_beta)
INTrainingUpdateGradGammaBeta(res_gamma, res_beta) -> (pd_gamma, pd_beta)
INTrainingUpdateV2(x, sum, square_sum, gamma?, beta?, mean?, variance?) -> (y, batch_mean, batch_variance)
    {momentum: float = 0.1; epsilon: float = 1e-05}
InvGrad(x, grad) -> y
KlDivLossGrad(grad, input, target) -> y {reduction: str = "mean"; log_target: bool = False}
L1LossGrad(grads, predict, label) -> y {reduction: str = "mean"}
L2NormalizeGrad(x, y, dy) -> dx {dim: ints = []; eps: float = 0.0001}
LayerNormBetaGammaBackprop(dy, x, variance, mean) -> (pd_gamma, pd_beta) {shape_gamma: ints}
LayerNormBetaGammaBackpropV2(dy, res_for_gamma) -> (pd_gamma, pd_beta) {shape_gamma: ints}
LayerNormGrad(dy, x, variance, mean, gamma) -> (pd_x, pd_gamma, pd_beta)
LayerNormGradV3(dy, x, rstd, mean, gamma) -> (pd_x, pd_gamma, pd_beta)
LayerNormXBackprop(dy, x, variance, mean, gamma) -> pd_x
LayerNormXBackpropV2(dy, x, variance, mean, gamma) -> (pd_x, res_for_gamma)
LayerNormXBackpropV3(dy, x, rstd, mean, gamma) -> (pd_x, res_for_gamma)
LeakyReluGrad(gradients, features) -> backprops {negative_slope: float = 0.0}
LNDropoutGrad(dy, x, variance, mean, gamma, mask) -> (pd_x, pd_x_dropout, pd_gamma, pd_beta) {keep_prob:
    float}
LogSigmoidGrad(grads, features) -> backprops
LogSoftmaxGrad(grad, x) -> y {axis: ints = [-1]}
LRNGrad(grads, x, y) -> z {depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; beta: float =
    0.5}
LSTMInputGrad(w, init_c, c, dy, dh, dc, i, j, f, o, tanhct?) -> (dx, dh_prev, dc_prev, dgate)
MaximumGrad(grads, x1, x2) -> (y1, y2) {grad_x: bool = True; grad_y: bool = True}
MaxPool3DGrad(orig_x, orig_y, grads) -> y {ksize: ints; strides: ints; padding: str = "SAME"; pads: ints;
    data_format: str = "NDHWC"}
MaxPool3DGradWithArgmax(x, grad, argmax) -> y {ksize: ints; strides: ints; pads: ints; dilation: ints = [1, 1, 1];
    ceil_mode: bool = False; data_format: str = "NCDHW"}
MaxPool3DGradGrad(orig_x, orig_y, grads) -> y {ksize: ints; strides: ints; pads: ints; data_format: str =
    "NDHWC"}
MaxPoolGrad(x1, x2, grad) -> y {ksize: ints; strides: ints; padding: str; data_format: str = "NHWC"}
MaxPoolGradGrad(x1, x2, grad) -> y {ksize: ints; strides: ints; padding: str; data_format: str = "NHWC"}
MaxPoolGradGradWithArgmax(x, grad, argmax) -> y {ksize: ints; strides: ints; padding: str}
MaxPoolGradWithArgmax(x, grad, argmax) -> y {ksize: ints; strides: ints; padding: str}
MaxPoolGradWithArgmaxV1(x, grad, argmax) -> y {ksize: ints; strides: ints; pads: ints; dtype: int = 3;
    dilation: ints = [1, 1, 1, 1]; ceil_mode: bool = False}
MaxPoolGradWithArgmaxV2(x, grad, argmax) -> y {ksize: ints; strides: ints; pads: ints; dtype: int = 3;
    dilation: ints = [1,1,1,1]; ceil_mode: bool = False}
MaxPoolGradWithArgmaxV3(x, grad, argmax) -> y {ksize: ints; strides: ints; pads: ints; dtype: int = 3;
    dilation: ints = [1, 1]; ceil_mode: bool = False; data_format: str = "NCHW"}
MaxPoolV3Grad(orig_input, orig_output, grad) -> out_grad {ksize: ints; strides: ints; padding_mode: str =
    "CALCULATED"; pads: ints = [0, 0, 0, 0]; data_format: str = "NCHW"; global_pooling: bool = False;
    ceil_mode: bool = False}
MinimumGrad(grads, x1, x2) -> (y1, y2) {grad_x: bool = True; grad_y: bool = True}
MirrorPadGrad(x, paddings) -> y {mode: str}
MishGrad(grad, x, tanhx?) -> x_grad
MseLossGrad(predict, label, dout) -> y {reduction: str = "mean"}
MultiHeadAttentionGrad(query, key, value, query_weight, key_weight, value_weight, out_proj_weight,
    query_res, key_res, value_res, attn_scores, attn_res, context, y_grad, dropout_mask?) ->
    (query_weight_grad, key_weight_grad, value_weight_grad, out_proj_weight_grad, query_grad, key_grad,
    value_grad, query_bias_grad, key_bias_grad, value_bias_grad, out_proj_bias_grad) {attn_head_num: int;
    attn_dim_per_head: int; src_len: int; tgt_len: int; keep_prob: float; softmax_use_float: bool;
    bias_grad_mask: bools}
MultiHeadAttentionScoreGrad(query, key, value, dy, pse_shift?, drop_mask?, padding_mask?, atten_mask?,
    softmax_in?, attention_in?) -> (dq, dk, dv, dpse) {scale_value: float = 1.0; keep_prob: float = 1.0;
    pre_tockens: int = 65536; next_tockens: int = 65536; head_num: int; input_layout: str}
NLLLossGrad(x, y_grad, target, weight, total_weight) -> x_grad {reduction: str = "mean"; ignore_index: int
    = -100}
PadV3Grad(x, paddings) -> y {mode: str = "reflect"; paddings_contiguous: bool = True}
PReluGrad(grads, features, weights) -> (dx, da)
PreventGradient(x) -> y {message: str = ""}
PSAMaskGrad(y_grad) -> x_grad {psa_type: int; num: int; h_feature: int; w_feature: int; h_mask: int;
    w_mask: int; half_h_mask: int; half_w_mask: int}
PSROIPoolingGradV2D(x, rois) -> y {spatial_scale: float; output_dim: int; group_size: int; input_size:
    ints}
RandomGammaGrad(alpha, sample) -> y
ReciprocalGrad(y, dy) -> z
Relu6Grad(gradients, features) -> backprops
ReluGrad(gradients, features) -> backprops
ReluGradV2(gradients, mask) -> backprops
ResizeBicubicGrad(grads, original_image) -> y {align_corners: bool = False; half_pixel_centers: bool =
    False}
ResizeBilinearV2Grad(grads, original_image) -> y {align_corners: bool = False; half_pixel_centers: bool =
    False}
ResizeGrad(grads, roi?, scales?, original_size) -> y {coordinate_transformation_mode: str = "half_pixel";
    cubic_coeff_a: float = -0.75; exclude_outside: int = 0; extrapolation_value: float = 0.0; mode: str =
    "nearest"; nearest_mode: str = "round_prefer_floor"}
ResizeGradD(grads) -> y {original_size: ints; roi: ints = []; scales: floats = [];
    coordinate_transformation_mode: str = "half_pixel"; cubic_coeff_a: float = -0.75; exclude_outside: int
    = 0; extrapolation_value: float = 0.0; mode: str = "nearest"; nearest_mode: str =
    "round_prefer_floor"}
ResizeNearestNeighborV2Grad(grads, size) -> y {align_corners: bool = False; half_pixel_centers: bool =
    False}
ResizeNearestNeighborV2GradD(grads) -> y {size: ints; align_corners: bool = False; half_pixel_centers:
    bool = False}
RmsNormGrad(dy, x, rstd, gamma) -> (dx, dgamma)
RmsNormGradQuant(dy, x, rstd, gamma, scales_x, offset_x?) -> (dx, dgamma) {div_mode: bool = True;
    quant_mode: str = "static"; dst_type: int = 2}
ROIAlignGrad(ydiff, rois, rois_n?) -> xdiff {xdiff_shape: ints; pooled_width: int; pooled_height: int;
    spatial_scale: float; sample_num: int = 2; roi_end_mode: int = 1}
RoiAlignRotatedGrad(x_grad, rois) -> y_grad {y_grad_shape: ints; pooled_h: int; pooled_w: int;
    spatial_scale: float; sampling_ratio: int = 0; aligned: bool = True; clockwise: bool = False}
RoiPoolingGradWithArgMax(grad, x, rois, roi_actual_num?, argmax) -> y {pooled_h: int; pooled_w: int;
    spatial_scale_h: float; spatial_scale_w: float; pool_channel: int}
RotaryMulGrad(x, r1, r2, dy) -> (dx, dr1, dr2) {need_backward: bool = True}
RotaryPositionEmbeddingGrad(dy, cos, sin, x?) -> (dx, dcos, dsin) {mode: int = 0}
RotatedFeatureAlignGrad(dy, bboxes) -> dx {spatial_scale: float; points: int = 1}
RsqrtGrad(y, dy) -> z
ScaleAndTranslateGrad(grads, original_image, scale, translation) -> y {kernel_type: str = "lanczos3";
    antialias: bool = True}
ScaledMaskedSoftmaxGrad(y_grad, y, mask?) -> x_grad {scale: float = 1.0; fixed_triu_mask: bool = False}
SeluGrad(gradients, outputs) -> y
SigmoidCrossEntropyWithLogitsGrad(predict, target, dout) -> gradient
SigmoidCrossEntropyWithLogitsGradV2(predict, target, dout, weight?, pos_weight?) -> gradient {reduction:
    str = "mean"}
SigmoidFocalLossGrad(pred, target, dout, weight?) -> grad {alpha: float = 0.25; gamma: float = 2.0;
    reduction: str = "mean"}
SigmoidGrad(y, dy) -> z {complex_conj: bool = False}
SmoothL1LossGrad(predict, label, dout) -> gradient {sigma: float = 1.0}
SmoothL1LossGradV2(predict, label, dout) -> gradient {sigma: float = 1.0; reduction: str = "mean"}
SoftMarginLossGrad(predict, label, dout) -> gradient {reduction: str = "mean"}
SoftmaxFocalLossGrad(pred, target, dout, weight?) -> grad {alpha: float = 0.25; gamma: float = 2.0;
    reduction: str = "mean"}
SoftmaxGrad(softmax, grad_softmax) -> grad_x {axes: ints = [-1]}
SoftmaxGradExt(grad, x1, x2) -> y {axes: int = 1; keep_dims: bool = False}
SoftplusGrad(gradients, features) -> backprops
SoftplusV2Grad(input_gradients, input_features) -> output_backprops {beta: float = 1.0; threshold: float =
    20.0}
SoftShrinkGrad(input_grad, input_x) -> output_y {lambd: float = 0.5}
SoftsignGrad(gradients, features) -> output
SparseAccumulatorApplyGradient(handle, local_step, indices, values, shape) -> () {has_known_shape: bool;
    dtype: dtype}
SparseAccumulatorTakeGradient(handle, num_required) -> (indices, values, shape) {dtype: dtype}
SparseAddGrad(backprop_val_grad, x1_indices, x2_indices, sum_indices) -> (x1_val_grad, x2_val_grad)
SparseFillEmptyRowsGrad(reverse_index_map, grad_values) -> (y_value, y_default_value)
SparseSegmentMeanGrad(x, indices, segment_ids, output_dim0) -> y
SparseSegmentSumGrad(grad, indices, segment_ids, output_dim0) -> output
SparseSliceGrad(backprop_val_grad, indices, start, new_indices) -> y_grad
SqrtGrad(y, dy) -> z
StopGradient(x) -> y
StridedSliceGrad(shape, begin, end, strides, dy) -> output {begin_mask: int = 0; end_mask: int = 0;
    ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0}
StridedSliceGradD(dy) -> output {shape: ints; begin: ints; end: ints; strides: ints; begin_mask: int = 0;
    end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0}
SwiGluGrad(y_grad, x) -> y {dim: int = -1}
SwishGrad(grad, x, y) -> grad_x {scale: float = 1.0}
SyncBatchNormBackwardElemt(grad_output, save_input, mean, invstd, weight, mean_dy, mean_dy_xmu) ->
    grad_input
SyncBatchNormBackwardReduce(sum_dy, sum_dy_dx_pad, mean, invert_std) -> (sum_dy_xmu, y)
SyncBatchNormGatherStats(total_sum, total_square_sum, sample_count, mean, variance) -> (batch_mean,
    batch_invstd, mean, variance) {momentum: float = 0.1; eps: float = 1e-05}
SyncBatchNormGatherStatsWithCounts(mean_all, invert_std_all, count_all, mean_broadcast, count_sum,
    running_var) -> (invert_std, running_var_update) {momentum: float = 0.1; epsilon: float = 0.001}
SyncBNTrainingUpdate(mean, running_mean) -> running_mean_update {momentum: float = 0.1}
SyncResizeBilinearV2Grad(grads, original_image) -> y {size: ints = []; ori_image_size: ints = [];
    src_start_w: int = 0; dst_start_w: int = 0; align_corners: bool = False; half_pixel_centers: bool =
    False}
TabulateFusionGrad(table, table_info, em_x, em, dy, descriptor) -> (dy_dem_x, dy_dem)
TanhGrad(y, dy) -> z {complex_conj: bool = False}
TensorArrayGrad(handle, flow_in) -> (grad_handle, flow_out) {source: str}
TensorArrayGradWithShape(handle, flow_in, shape_to_prepend) -> (grad_handle, flow_out) {source: str = ""}
ThresholdGradV2D(gradients, features) -> backprops {threshold: float}
UnbatchGrad(x_input, index, grad, id) -> y_grad {container: str = ""; shared_name: str = ""}
UpsampleNearest1dGrad(grad_output) -> y {input_size: ints; output_size: ints; scales: floats = []}
UpsampleNearest3dGrad(grad_output) -> y {input_size: ints; output_size: ints = []; scales: floats = []}
UpsampleTrilinear3dGrad(grad_output) -> y {input_size: ints; output_size: ints = []; scales: floats = [];
    align_corners: bool = False}
"""
