// Fused operators that aclnn functions compute: one row each says what inputs, attributes and outputs are over there.
//
//   Type(inputs) -> outputs = Function {attributes}
//
// Inputs and outputs are names of parameters of the function, in the order of the operator type. An output that is an
// input as well is written in place. `-`: an input that has to be missing. `x~turned`: turned where that attribute is set.
// An attribute is `name` or `name=parameter`, with `?value` behind it if CANN has a default, which graphs may leave out;
// or `parameter:=value` for what is no attribute of the operator.
#include <air_sim/operators.h>

#include <sstream>

#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
using Words = std::vector<std::string>;

Words words(const std::string& text) {
  std::istringstream stream(text);
  Words found;
  for (std::string word; stream >> word;) found.push_back(word);
  return found;
}
std::string between(const std::string& text, const std::string& first, const std::string& second) {
  const size_t from = text.find(first) + first.size();
  return text.substr(from, text.find(second, from) - from);
}
// What is left and right of a mark; the whole, twice, without one.
std::pair<std::string, std::string> halves(const std::string& word, const std::string& mark) {
  const size_t at = word.find(mark);
  if (at == std::string::npos) return {word, word};
  return {word.substr(0, at), word.substr(at + mark.size())};
}

struct Row {
  std::string type, function;
  Words inputs, outputs, attributes;
  explicit Row(const std::string& text)
      : type(text.substr(0, text.find('('))),
        function(words(between(text, " = ", "{")).at(0)),
        inputs(words(between(text, "(", ")"))),
        outputs(words(between(text, "->", " = "))),
        attributes(words(between(text, "{", "}"))) {}
};

Argument of_text(const std::string& text) {
  Argument made;
  made.text = text;
  made.real = std::strtod(text.c_str(), nullptr);
  made.integer = std::strtoll(text.c_str(), nullptr, 10);
  return made;
}
std::map<std::string, Argument> arguments(const Row& row, const Call& c) {
  std::map<std::string, Argument> given;
  TORCH_CHECK(c.in.size() <= row.inputs.size(), c.in.size(), " inputs are not implemented by air-sim, which takes ", row.inputs.size());
  for (size_t i = 0; i < c.in.size(); ++i) {
    const auto [name, turned] = halves(row.inputs[i], "~");
    if (!c.given(i)) continue;
    TORCH_CHECK(name != "-", "input ", i, " is not implemented by air-sim");
    given[name].tensor = name != turned && c.integer(turned.c_str()) ? c.in[i].transpose(-1, -2) : c.in[i];
  }
  for (const std::string& word : row.attributes) {
    if (const auto [parameter, value] = halves(word, ":="); parameter != value) {
      given[parameter] = of_text(value);
      continue;
    }
    const auto [both, otherwise] = halves(word, "?");
    const auto [name, parameter] = halves(both, "=");
    const auto found = c.op.attributes.find(name);
    TORCH_CHECK(found != c.op.attributes.end() || both != otherwise, "the graph does not say ", name);
    given[parameter] = found == c.op.attributes.end() ? of_text(otherwise) : with_values_of<Argument>(found->second);
  }
  return given;
}
// What the engine says of an output; `otherwise`, where there is one, if the graph leaves its sizes open.
Expected expected(const Call& c, size_t output, const std::vector<Ints>& otherwise) {
  const bool said = output < c.op.output_descs.size();
  const Ints sizes = said ? c.op.output_descs[output].shape : Ints{};
  const bool sized = said && std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; });
  if (!sized && output < otherwise.size()) return {c.output_type(output, at::kFloat), true, otherwise[output]};
  return {c.output_type(output, at::kFloat), sized, sizes};
}
Tensors run_row(const Row& row, const Call& c, const std::vector<Ints>& open_sizes = {}) {
  const auto given = arguments(row, c);
  std::map<std::string, Expected> wanted;
  for (size_t i = 0; i < row.outputs.size(); ++i)
    if (!given.count(row.outputs[i])) wanted[row.outputs[i]] = expected(c, i, open_sizes);
  const auto made = run_operator(row.function, given, wanted);
  Tensors results;
  for (const std::string& name : row.outputs) {
    const auto found = made.find(name);
    const Tensor result = found == made.end() ? given.at(name).tensor : found->second;
    results.push_back(c.gives_four_bits(results.size()) ? result.clamp(-8, 7) : result);
  }
  return results;
}

#define OPERANDS "query key value pse drop_mask padding_mask atten_mask prefix"
#define TRAINED "softmax_max softmax_sum softmax_out out"
#define OF_TRAINING                                                                                                  \
  "{scale_value=scale?1 keep_prob?1 pre_tockens=pre_tokens?2147483647 next_tockens=next_tokens?2147483647 head_num " \
  "input_layout=layout inner_precise?1 sparse_mode?0 pse_type:=1}"
#define QUANTISED "dequant_scale1 quant_scale1 dequant_scale2 quant_scale2 quant_offset2"
#define OF_HEADS "num_heads=heads input_layout=layout?BSH inner_precise?1"

const char* const kRows[] = {
    "AddRmsNormQuant(x1 x2 gamma scales1 scales2 offset1 offset2 beta) -> y1 y2 x = AddRmsNormQuantV2 "
    "{axis?-1 epsilon=eps?1e-6 div_mode=divide?1}",
    "ApplyRotaryPosEmb(query key cos sin) -> query key = ApplyRotaryPosEmbV2 {layout?1 rotary_mode=mode?half}",
    "AscendQuantV2(x scale offset) -> y = AscendQuantV3 {sqrt_mode=sqrt?0 round_mode=round?round dst_type=type?2 axis?-1}",
    "ClippedSwiglu(x groups) -> out = ClippedSwiglu {dim?-1 alpha?1.702 limit?7 bias?1 interleaved?1}",
    "DynamicQuantV2(x smooth groups) -> y scale offset = DynamicQuantV4 {dst_type=type?2 is_symmetrical=symmetric?0 "
    "quant_mode=mode?pertoken dst_type_max=type_max?0}",
    "FusedInferAttentionScore(query keys values pse mask query_lengths key_lengths " QUANTISED " antiquant_scale antiquant_offset "
    "table query_padding kv_padding key_scale key_offset value_scale value_offset key_prefix value_prefix prefix_length query_rope "
    "key_rope key_rope_scale query_scale sink - -) -> out lse = FusedInferAttentionScoreV4 {" OF_HEADS " scale?1 "
    "pre_tokens?2147483647 next_tokens?2147483647 num_key_value_heads=key_heads?0 sparse_mode?0 block_size?0 antiquant_mode?0 "
    "softmax_lse_flag=want_lse?0 key_antiquant_mode=key_mode?0 value_antiquant_mode=value_mode?0 query_quant_mode=query_mode?0}",
    "FlashAttentionScoreGrad(query key value dy pse drop_mask padding_mask atten_mask softmax_max softmax_sum softmax_in attention "
    "prefix - - q_start kv_start) -> dq dk dv dpse = FlashAttentionScoreGradV2 " OF_TRAINING,
    "GroupNormSilu(x gamma beta) -> y mean rstd = GroupNormSilu {num_groups=groups eps?1e-4}",
    "IncreFlashAttention(query keys values pse mask key_lengths " QUANTISED " antiquant_scale antiquant_offset table kv_padding) -> out "
    "= IncreFlashAttentionV4 {" OF_HEADS " num_key_value_heads=key_heads?1 scale_value=scale?1 block_size?0}",
    "InterleaveRope(x cos sin) -> out = InterleaveRope {}",
    "KvRmsNormRopeCache(kv gamma cos sin index k_cache latent_cache k_scale latent_scale k_offset latent_offset value) "
    "-> k_cache latent_cache k_rope latent = KvRmsNormRopeCacheV2 {epsilon=eps?1e-5 cache_mode=mode?Norm is_output_kv=want_kv?0}",
    "MlaPrologV3(x weight_dq weight_uq_qr weight_uk weight_dkv_kr gamma_cq gamma_ckv sin cos kv_cache kr_cache cache_index "
    "dequant_scale_x dequant_scale_w_dq dequant_scale_w_uq_qr dequant_scale_w_dkv_kr quant_scale_ckv quant_scale_ckr smooth lengths clip) "
    "-> query query_rope kv_cache kr_cache dequant_scale_q query_norm dequant_scale_norm = MlaPrologV3WeightNz "
    "{rmsnorm_epsilon_cq=eps_cq?1e-5 rmsnorm_epsilon_ckv=eps_ckv?1e-5 cache_mode=mode?PA_BSND weight_quant_mode?0 "
    "kv_cache_quant_mode=kv_quant_mode?0 query_quant_mode?0 ckvkr_repo_mode=repo_mode?0 quant_scale_repo_mode=scale_repo_mode?0 "
    "tile_size?128 qc_qr_scale?1 kc_scale?1}",
    "MoeComputeExpertTokens(sorted) -> out = MoeComputeExpertTokens {num_experts=experts}",
    "MoeFinalizeRoutingV2(rows positions skip1 skip2 bias scales experts) -> out = MoeFinalizeRoutingV2 {drop_pad_mode=mode?0}",
    "MoeGatingTopK(x bias input_ids table) -> y experts norm = MoeGatingTopKV2 {k k_group?1 group_count?1 "
    "group_select_mode=group_select?0 renorm?0 norm_type?0 out_flag=want_norm?0 routed_scaling_factor=factor?1 eps?1e-20}",
    "MoeGatingTopKSoftmax(x finished) -> y experts rows = MoeGatingTopKSoftmax {k}",
    "MoeGatingTopKSoftmaxV2(x finished) -> y experts softmax = MoeGatingTopKSoftmaxV2 {k renorm?0 "
    "output_softmax_result_flag=want_softmax?0}",
    "PromptFlashAttention(query key value pse mask query_lengths key_lengths " QUANTISED ") -> out = PromptFlashAttentionV3 {" OF_HEADS
    " scale_value=scale?1 pre_tokens?214748647 next_tokens?0 num_key_value_heads=key_heads?1 sparse_mode?0}",
    "QuantBatchMatmulV3(x1 x2 x2_scale x2_offset bias x1_scale) -> out = QuantMatmulV5 {transpose_x1=transpose1?0 "
    "transpose_x2=transpose2?0 group_size:=0}",
    "QuantUpdateScatter(self indices updates scales zeros) -> self = InplaceQuantScatterV2 {axis?-2 quant_axis?-1 reduction:=1 "
    "round_mode=round?rint}",
    "ScatterPaKvCache(key key_cache slots value value_cache compress_lens compress_offsets seq_lens) -> key_cache value_cache "
    "= ScatterPaKvCache {cache_mode=mode?Norm scatter_mode?None}",
    "Quantize(x scale offset) -> y = Quantize {axis?1 type:=0}",
    "RmsNorm(x gamma) -> y rstd = RmsNorm {epsilon=eps?1e-6}",
    "RotaryMul(x cos sin) -> out = RotaryPositionEmbedding {mode:=0}",
    "RotaryPositionEmbedding(x cos sin matrix) -> out = RotaryPositionEmbeddingV2 {mode?0}",
    "TransQuantParamV2(scale offset) -> out = TransQuantParamV3 {round_mode=round?0}",
    "WeightQuantBatchMatmulV2(x~transpose_x weight~transpose_weight antiquant_scale antiquant_offset quant_scale quant_offset bias) -> out "
    "= WeightQuantBatchMatmulV2 {antiquant_group_size=group_size?0}",
};
// With the lengths of sequences that lie one after the other, another function computes it.
const char* const kTraining[] = {
    "FlashAttentionScore(" OPERANDS " - - q_start kv_start) -> " TRAINED " = FlashAttentionScoreV2 " OF_TRAINING,
    "FlashAttentionScore(" OPERANDS " seq_q seq_kv q_start kv_start) -> " TRAINED " = FlashAttentionVarLenScoreV2 " OF_TRAINING,
};
constexpr size_t kLengths = 8;
// Its inputs are lists, which a call does not tell apart: here each of them has one tensor.
const char* const kGrouped =
    "GroupedMatmul(x~transpose_x weight~transpose_weight bias scale offset antiquant_scale antiquant_offset groups row_scale) -> out "
    "= GroupedMatmulV5 {split_item?0 group_type?-1 group_list_type=list_type?0 act_type=activation?0}";
constexpr size_t kGroups = 7;
const char* const kRouting =
    "MoeInitRoutingV3(x experts scale offset) -> expanded_x expanded_rows counts expanded_scale = MoeInitRoutingV3 {active_num?-1 "
    "expert_capacity=capacity?-1 expert_num?-1 drop_pad_mode=drop_pad?0 expert_tokens_num_type=count_type?0 "
    "expert_tokens_num_flag=want_counts?0 quant_mode?-1 active_expert_range=range? row_idx_type=row_type?0}";
// Rows in the order of their experts, where each of them went, rows of each expert, scales of rows.
std::vector<Ints> routed(const Call& c) {
  const int64_t all = c.in[1].numel(), wanted = c.integer("active_num", -1), columns = c.in[0].size(-1), experts = c.integer("expert_num");
  const bool padded = c.integer("drop_pad_mode") == 1;
  const int64_t capacity = c.integer("expert_capacity"), rows = padded ? experts * capacity : wanted > 0 ? std::min(wanted, all) : all;
  const Ints range = c.ints("active_expert_range");
  const int64_t active = range.size() == 2 ? range[1] - range[0] : experts;
  return {padded ? Ints{experts, capacity, columns} : Ints{rows, columns}, {all},
          c.integer("expert_tokens_num_type") == 2 ? Ints{experts, 2} : Ints{active}, {rows}};
}
void require_single_tensors(const Row& row, const Call& c) {
  const bool single = c.in.size() <= row.inputs.size() && (!c.given(kGroups) || c.in[kGroups].scalar_type() == at::kLong);
  TORCH_CHECK(single, "several tensors in a list are not implemented by air-sim");
}
}  // namespace

void add_by_name(Table& table) {
  for (const char* text : kRows) {
    const Row row(text);
    table[row.type] = [row](const Call& c) { return run_row(row, c); };
  }
  const Row grouped(kGrouped);
  table[grouped.type] = [grouped](const Call& c) {
    require_single_tensors(grouped, c);
    return run_row(grouped, c);
  };
  const Row routing(kRouting);
  table[routing.type] = [routing](const Call& c) { return run_row(routing, c, routed(c)); };
  const Row whole(kTraining[0]), parts(kTraining[1]);
  table[whole.type] = [whole, parts](const Call& c) { return run_row(c.given(kLengths) ? parts : whole, c); };
}
}  // namespace air_sim::graph_engine

#undef OPERANDS
#undef TRAINED
#undef OF_TRAINING
#undef QUANTISED
#undef OF_HEADS
