"""Prototypes: recurrent networks, CTC and embedding tables."""

from __future__ import annotations

ROWS = r"""
BasicLSTMCell(x, h, c, w, b, mask?) -> (ct, ht, it, jt, ft, ot, tanhct) {keep_prob: float = 1.0;
    forget_bias: float = 1.0; state_is_tuple: bool = True; activation: str = "tanh"}
BasicRNNCell(x, cont?, w_xh_x_static?, h_0?, w_xh, bias_h, w_hh?, w_ho, bias_o) -> (o_t, h_t)
    {expose_hidden: bool = False; num_output: int = 0}
CommonGRU(x, w, r, b?, sequence_lens?, initial_h?) -> (y, y_h) {activation_alpha: floats = [];
    activation_beta: floats = []; activations: strs = []; clip: float = -1.0; direction: str = "forward";
    hidden_size: int; linear_before_reset: int = 0}
CommonLSTM(x, w, r, b?, sequence_lens?, initial_h?, initial_c?, p?) -> (y, y_h, y_c) {activation_alpha:
    floats = []; activation_beta: floats = []; activations: strs = []; clip: float = -1.0; direction: str
    = "forward"; hidden_size: int; input_forget: int = 0}
CosineEmbeddingLoss(x1, x2, target) -> y {margin: float = 0.0; reduction: str = "mean"}
CTCBeamSearchDecoder(inputs, sequence_length) -> (decoded_indices*, decoded_values*, decoded_shape*,
    log_probability) {beam_width: int; top_paths: int; merge_repeated: bool = True}
CTCGreedyDecoder(inputs, sequence_length) -> (decoded_indices, decoded_values, decoded_shape,
    log_probability) {merge_repeated: bool = False}
CTCLoss(inputs, labels_indices, labels_values, sequence_length) -> (loss, gradient)
    {preprocess_collapse_repeated: bool = False; ctc_merge_repeated: bool = True;
    ignore_longer_outputs_than_inputs: bool = False}
CTCLossV2(log_probs, targets, input_lengths, target_lengths) -> (neg_log_likelihood, log_alpha) {blank:
    int = 0; reduction: str = "mean"; zero_infinity: bool = False}
DynamicAUGRU(x, weight_input, weight_hidden, weight_att, bias_input?, bias_hidden?, seq_length?, init_h?)
    -> (y, output_h, update, update_att, reset, new, hidden_new) {direction: str = "UNIDIRECTIONAL";
    cell_depth: int = 1; keep_prob: float = 1.0; cell_clip: float = -1.0; num_proj: int = 0; time_major:
    bool = True; activation: str = "tanh"; gate_order: str = "zrh"; reset_after: bool = True; is_training:
    bool = True}
DynamicGRU(x, w, b, cw, cb, seq_length?, init_h?) -> (y, output_h, r, i, n) {direction: str =
    "UNIDIRECTIONAL"; cell_depth: int = 1; keep_prob: float = 1.0; cell_clip: float = -1.0; num_proj: int
    = 0; time_major: bool = True; activation: str = "tanh"; is_training: bool = True}
DynamicGRUV2(x, weight_input, weight_hidden, bias_input?, bias_hidden?, seq_length?, init_h?) -> (y,
    output_h, update, reset, new, hidden_new) {direction: str = "UNIDIRECTIONAL"; cell_depth: int = 1;
    keep_prob: float = 1.0; cell_clip: float = -1.0; num_proj: int = 0; time_major: bool = True;
    activation: str = "tanh"; gate_order: str = "zrh"; reset_after: bool = True; is_training: bool = True}
DynamicGRUV2Hidden(x_weight_input, weight_hidden, bias_hidden?, seq_length?, init_h?) -> (y, output_h,
    update, reset, new, hidden_new) {direction: str = "UNIDIRECTIONAL"; cell_depth: int = 1; keep_prob:
    float = 1.0; cell_clip: float = -1.0; num_proj: int = 0; time_major: bool = True; activation: str =
    "tanh"; gate_order: str = "zrh"; reset_after: bool = True; is_training: bool = True}
DynamicLSTM(x, w, b) -> output_h
DynamicLSTMV2(x, w, b, cont, w_xc_x_static?, h0?, c0?, wci?, wcf?, wco?, mask?) -> (y, output_h, output_c,
    last_output_h, last_output_c) {num_output: int = 0; expose_hidden: bool = False; need_output_last:
    bool = False; forget_bias: float = 0.0}
DynamicRNN(x, w, b, seq_length?, init_h?, init_c?, wci?, wcf?, wco?, mask?) -> (y, output_h, output_c, i,
    j, f, o, tanhc) {cell_type: str = "LSTM"; direction: str = "UNIDIRECTIONAL"; cell_depth: int = 1;
    use_peephole: bool = False; keep_prob: float = 1.0; cell_clip: float = -1.0; num_proj: int = 0;
    time_major: bool = True; activation: str = "tanh"; forget_bias: float = 0.0; gate_order: str = "ijfo";
    is_training: bool = True}
DynamicRNNV2(x, weight_input, weight_hidden, b?, seq_length?, init_h?, init_c?, wci?, wcf?, wco?, mask?)
    -> (y, output_h, output_c, i, j, f, o, tanhc) {cell_type: str = "LSTM"; direction: str =
    "UNIDIRECTIONAL"; cell_depth: int = 1; use_peephole: bool = False; keep_prob: float = 1.0; cell_clip:
    float = -1.0; num_proj: int = 0; time_major: bool = True; activation: str = "tanh";
    recurrent_activation: str = "sigmoid"; forget_bias: float = 0.0; gate_order: str = "ijfo"; stateful:
    bool = False; merge_mode: str = "concat"; is_training: bool = True}
DynamicRNNV3(x, w, b, seq_length?, init_h?, init_c?, wci?, wcf?, wco?, mask?, real_mask?, project?) -> (y,
    output_h, output_c, i, j, f, o, tanhc) {cell_type: str = "LSTM"; direction: str = "UNIDIRECTIONAL";
    cell_depth: int = 1; use_peephole: bool = False; keep_prob: float = 1.0; cell_clip: float = -1.0;
    num_proj: int = 0; time_major: bool = True; activation: str = "tanh"; forget_bias: float = 0.0;
    is_training: bool = True}
EmbeddingBag(weight, indices, offsets?, per_sample_weights?) -> (y, offset2bag, bag_size, max_indices) {mode: str =
    "mean"; scale_grad_by_freq: bool = False; sparse: bool = False; include_last_offset: bool = False;
    padding_idx: int = -1}
EmbeddingComputeVarExport(file_path, ps_id, table_id) -> () {table_name: strs = []}
EmbeddingComputeVarImport(file_path, ps_id, table_id) -> () {table_name: strs = []}
EmbeddingFeatureMapping(feature_id) -> offset_id
EmbeddingLocalIndex(addr_table, index) -> (local_idx, nums, recover_idx) {row_memory: int = 320; mode: str
    = "mod"}
EmbeddingRankId(addr_table, index) -> rank_id {row_memory: int = 320; mode: str = "mod"}
InitEmbeddingHashmap(table_id) -> () {bucket_size: int = 0; value_total_len: int; embedding_dim: int;
    dtype: dtype = FLOAT; initializer_mode: str = ""; constant_value: float = 0.0; min: float = -2.0; max:
    float = 2.0; mu: float = 0.0; sigma: float = 1.0; seed: int = 0; seed2: int = 0; filter_mode: str =
    "no_filter"; optimizer_mode: str = ""; optimizer_params: floats = []}
LSTM(x, cont, w_x, bias, w_h, x_static?, h_0?, c_0?, w_x_static?) -> (h, h_t, c_t) {num_output: int = 0;
    expose_hidden: bool = False}
LSTMP(x, wx, bias, wr, project, real_mask?, init_h?, init_c?) -> (y, output_h, output_c) {time_major: bool
    = False}
RNN(x, cont, x_static?, h_0?, w_xh, bias_h, w_sh?, w_hh, w_ho, bias_o) -> (o, h_t) {num_output: int = 0;
    expose_hidden: bool = False}
RNNTLoss(acts, labels, input_lengths, label_lengths) -> (costs, grads) {blank_label: int = 0}
TransDataRNN(src) -> dst {src_format: str; dst_format: str; input_size: int; hidden_size: int}
UninitEmbeddingHashmap(table_id) -> ()
"""
