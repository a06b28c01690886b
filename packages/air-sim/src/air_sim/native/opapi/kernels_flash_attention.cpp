// The attention of training (npu_fusion_attention): whole batches, or sequences packed one after the other (TND).
#include "attention.h"

#include <ATen/CPUGeneratorImpl.h>

namespace air_sim {
namespace {
int64_t first_or_zero(const Call& c, const char* name) {
  auto values = c.ints(name);
  return values.empty() ? 0 : values[0];
}

Tensor optional_tensor(const Call& c, const char* name) {
  if (!c.knows(name)) return Tensor();
  Tensor found = c.tensor(name);
  return found.defined() && found.numel() > 0 ? found : Tensor();
}

// What does not depend on the batch.
Attention settings_of(const Call& c) {
  for (const char* scale : {"scale_q", "scale_k", "scale_v", "scale_dy", "scale_out"})
    TORCH_CHECK(!optional_tensor(c, scale).defined(), "attention of quantised numbers is not implemented by air-sim");
  Attention a;
  a.scale = c.real("scale");
  a.keep_probability = c.real("keep_prob");
  a.visible = {c.integer("sparse_mode"), c.integer("pre_tokens"), c.integer("next_tokens"), c.ints("prefix")};
  a.mask = optional_tensor(c, "atten_mask");
  a.position = optional_tensor(c, "pse");
  a.sink = optional_tensor(c, "sink");
  if (c.knows("pse_type")) a.position_type = c.integer("pse_type");
  if (c.knows("q_start")) a.query_start = first_or_zero(c, "q_start");
  if (c.knows("kv_start")) a.key_start = first_or_zero(c, "kv_start");
  return a;
}

Tensor with_rope(const Call& c, const char* name, const char* rope) {
  Tensor extra = optional_tensor(c, rope), base = c.tensor(name);
  return extra.defined() ? at::cat({base, extra}, -1) : base;
}

bool drops(const Call& c) { return c.real("keep_prob") < 1 && (c.has("drop_mask") || c.knows("seed")); }
// Which scores are kept, from a mask of bits, `first` the one of the first; a function that takes a seed draws them itself.
Tensor kept(const Call& c, const std::vector<int64_t>& shape, int64_t first) {
  if (c.has("drop_mask")) return unpack_bits(c.tensor("drop_mask"), shape, first);
  const uint64_t seed = static_cast<uint64_t>(c.integer("seed")) * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(c.integer("offset") + first);
  return at::rand(shape, at::detail::createCPUGenerator(seed), at::TensorOptions().dtype(at::kFloat)) < c.real("keep_prob");
}

struct Heads {
  int64_t query, key;
};
Heads heads_of(const Call& c, const std::string& layout, const Tensor& query, const Tensor& key) {
  int64_t heads = c.integer("head_num");
  if (layout != "BSH" && layout != "SBH") return {heads, 0};
  return {heads, key.size(2) / (query.size(2) / heads)};
}

// The lengths are cumulative; without them the tensors are whole batches.
bool packed(const Call& c) { return c.knows("seq_q") && !c.ints("seq_q").empty() && c.text("layout") == "TND"; }

void write_statistics(const Call& c, const Tensor& maximum, const Tensor& sum) {
  if (Tensor target = c.tensor("softmax_max"); target.defined()) c.write("softmax_max", maximum.expand(target.sizes()));
  if (Tensor target = c.tensor("softmax_sum"); target.defined()) c.write("softmax_sum", sum.expand(target.sizes()));
}

// One attention per batch of a packed sequence, in order.
template <class Body>
void for_each_batch(const Call& c, const Tensor& query, const Tensor& key, const Tensor& value, const Body& body) {
  auto ends_q = c.ints("seq_q"), ends_k = c.ints("seq_kv");
  TORCH_CHECK(ends_q.size() == ends_k.size(), "actual_seq_qlen and actual_seq_kvlen differ in length");
  int64_t bits = 0;
  auto prefix = c.ints("prefix");
  for (size_t b = 0; b < ends_q.size(); ++b) {
    Attention a = settings_of(c);
    auto one = [&](const Tensor& x, const std::vector<int64_t>& ends) { return rows_of_batch(x, ends, b).transpose(0, 1).unsqueeze(0); };
    a.query = one(query, ends_q);
    a.key = one(key, ends_k);
    a.value = one(value, ends_k);
    if (!prefix.empty()) a.visible.prefix = {prefix[b]};
    if (a.mask.defined() && a.mask.dim() == 4 && a.mask.size(0) > 1) a.mask = a.mask.narrow(0, static_cast<int64_t>(b), 1);
    if (a.position.defined() && a.position.dim() == 4 && a.position.size(0) > 1) a.position = a.position.narrow(0, static_cast<int64_t>(b), 1);
    if (drops(c)) {
      std::vector<int64_t> shape{1, a.query.size(1), a.query.size(2), a.key.size(2)};
      a.keep = kept(c, shape, bits);
      bits += a.keep.numel();
    }
    body(a, b, ends_q, ends_k);
  }
}

void forward_packed(const Call& c) {
  std::vector<Tensor> outs, maxima, sums;
  for_each_batch(c, with_rope(c, "query", "query_rope"), with_rope(c, "key", "key_rope"), c.tensor("value"),
                 [&](const Attention& a, size_t, const auto&, const auto&) {
                   AttentionResult r = attend(a);
                   outs.push_back(r.out[0].transpose(0, 1));
                   maxima.push_back(r.maximum[0].transpose(0, 1));
                   sums.push_back(r.sum[0].transpose(0, 1));
                 });
  c.write("out", at::cat(outs));
  write_statistics(c, at::cat(maxima), at::cat(sums));
}

Attention whole(const Call& c, const std::string& layout, const Heads& heads) {
  Attention a = settings_of(c);
  a.query = to_bnsd(with_rope(c, "query", "query_rope"), layout, heads.query);
  a.key = to_bnsd(with_rope(c, "key", "key_rope"), layout, heads.key);
  a.value = to_bnsd(c.tensor("value"), layout, heads.key);
  if (drops(c)) a.keep = kept(c, {a.query.size(0), a.query.size(1), a.query.size(2), a.key.size(2)}, 0);
  return a;
}

void forward(Call& c) {
  if (packed(c)) return forward_packed(c);
  std::string layout = c.text("layout");
  AttentionResult r = attend(whole(c, layout, heads_of(c, layout, c.tensor("query"), c.tensor("key"))));
  c.write("out", from_bnsd(r.out, layout));
  write_statistics(c, r.maximum, r.sum);
}

// The gradient of [query; rope] goes to both.
void write_split(const Call& c, const char* name, const char* rope, const Tensor& grad) {
  int64_t width = c.tensor(name).defined() ? c.tensor(name).size(-1) : grad.size(-1);
  c.write(name, grad.narrow(-1, 0, width));
  if (c.knows(rope) && grad.size(-1) > width) c.write(rope, grad.narrow(-1, width, grad.size(-1) - width));
}

void write_gradients(const Call& c, const Tensor& q, const Tensor& k, const Tensor& v) {
  write_split(c, "dq", "dq_rope", q);
  write_split(c, "dk", "dk_rope", k);
  c.write("dv", v);
}

void write_optional(const Call& c, const char* name, const Tensor& grad) {
  if (c.knows(name) && grad.defined() && c.tensor(name).defined() && c.tensor(name).numel() > 0) c.write(name, grad);
}

void backward_packed(const Call& c) {
  std::vector<Tensor> q, k, v;
  Tensor sink, dy = c.tensor("dy");
  for_each_batch(c, with_rope(c, "query", "query_rope"), with_rope(c, "key", "key_rope"), c.tensor("value"),
                 [&](const Attention& a, size_t b, const std::vector<int64_t>& ends_q, const auto&) {
                   AttentionGradient g = attend_backward(a, rows_of_batch(dy, ends_q, b).transpose(0, 1).unsqueeze(0));
                   q.push_back(g.query[0].transpose(0, 1));
                   k.push_back(g.key[0].transpose(0, 1));
                   v.push_back(g.value[0].transpose(0, 1));
                   if (g.sink.defined()) sink = sink.defined() ? sink + g.sink : g.sink;
                 });
  write_gradients(c, at::cat(q), at::cat(k), at::cat(v));
  write_optional(c, "dsink", sink);
}

void backward(Call& c) {
  if (packed(c)) return backward_packed(c);
  std::string layout = c.text("layout");
  Heads heads = heads_of(c, layout, c.tensor("query"), c.tensor("key"));
  AttentionGradient g = attend_backward(whole(c, layout, heads), to_bnsd(c.tensor("dy"), layout, heads.query));
  write_gradients(c, from_bnsd(g.query, layout), from_bnsd(g.key, layout), from_bnsd(g.value, layout));
  write_optional(c, "dpse", g.position);
  write_optional(c, "dsink", g.sink);
}

#define MASKS "T? pse, T? drop_mask, T? padding_mask, T? atten_mask, "
#define LENGTHS "I? seq_q, I? seq_kv, "
#define SCALES "T? scale_q, T? scale_k, T? scale_v, "
#define STARTS "I? q_start, I? kv_start, "
#define NUMBERS "d scale, d keep_prob, i pre_tokens, i next_tokens, i head_num, s layout, "
#define RESULTS "T! softmax_max, T! softmax_sum, T! softmax_out, T! out)"
#define SAVED "T? softmax_max, T? softmax_sum, T? softmax_in, T? attention, "

const Family flash_attention({
    {"FlashAttentionScore(T query, T key, T value, " MASKS "I? prefix, " NUMBERS "i inner_precise, i sparse_mode, " RESULTS, forward},
    {"FlashAttentionScoreV2(T query, T key, T value, " MASKS "I? prefix, " STARTS NUMBERS "i inner_precise, i sparse_mode, i pse_type, " RESULTS, forward},
    {"FlashAttentionScoreV3(T query, T key, T value, " MASKS "T? sink, I? prefix, " STARTS NUMBERS
     "i inner_precise, i sparse_mode, i pse_type, " RESULTS, forward},
    {"FlashAttentionScoreV4(T query, T key, T value, " MASKS "T? query_rope, T? key_rope, " SCALES "T? sink, I? prefix, " LENGTHS STARTS NUMBERS
     "i inner_precise, i sparse_mode, i out_type, i pse_type, s softmax_layout, i seed, i offset, " RESULTS, forward},
    {"FlashAttentionVarLenScore(T query, T key, T value, " MASKS "I? prefix, " LENGTHS NUMBERS "i inner_precise, i sparse_mode, " RESULTS, forward},
    {"FlashAttentionVarLenScoreV2(T query, T key, T value, " MASKS "I? prefix, " LENGTHS STARTS NUMBERS
     "i inner_precise, i sparse_mode, i pse_type, " RESULTS, forward},
    {"FlashAttentionVarLenScoreV3(T query, T? query_rope, T key, T? key_rope, T value, " MASKS "I? prefix, " LENGTHS STARTS NUMBERS
     "i inner_precise, i sparse_mode, i pse_type, " RESULTS, forward},
    {"FlashAttentionVarLenScoreV4(T query, T key, T value, " MASKS "I? prefix, " LENGTHS NUMBERS
     "i inner_precise, i sparse_mode, s softmax_layout, " RESULTS, forward},
    {"FlashAttentionVarLenScoreV5(T query, T? query_rope, T key, T? key_rope, T value, " MASKS "T? sink, I? prefix, " LENGTHS STARTS NUMBERS
     "i inner_precise, i sparse_mode, i pse_type, s softmax_layout, " RESULTS, forward},
    {"FlashAttentionScoreGrad(T query, T key, T value, T dy, " MASKS SAVED "I? prefix, " NUMBERS
     "i inner_precise, i sparse_mode, T! dq, T! dk, T! dv, T! dpse)", backward},
    {"FlashAttentionScoreGradV2(T query, T key, T value, T dy, " MASKS SAVED "I? prefix, " STARTS NUMBERS
     "i inner_precise, i sparse_mode, i pse_type, T! dq, T! dk, T! dv, T! dpse)", backward},
    {"FlashAttentionScoreGradV3(T query, T key, T value, T dy, " MASKS SAVED "T? sink, I? prefix, " STARTS NUMBERS
     "i inner_precise, i sparse_mode, i pse_type, T! dq, T! dk, T! dv, T! dpse, T! dsink)", backward},
    {"FlashAttentionScoreGradV4(T query, T key, T value, T dy, " MASKS SAVED "T? sink, T? query_rope, T? key_rope, " SCALES
     "T? scale_dy, T? scale_out, I? prefix, " LENGTHS STARTS NUMBERS "s softmax_layout, i inner_precise, i sparse_mode, i pse_type, i seed, "
     "i offset, i out_type, T! dq, T! dk, T! dv, T! dq_rope, T! dk_rope, T! dpse, T! dsink)", backward},
    {"FlashAttentionUnpaddingScoreGrad(T query, T key, T value, T dy, " MASKS SAVED "I? prefix, " LENGTHS NUMBERS
     "i inner_precise, i sparse_mode, T! dq, T! dk, T! dv, T! dpse)", backward},
    {"FlashAttentionUnpaddingScoreGradV2(T query, T key, T value, T dy, " MASKS SAVED "I? prefix, " LENGTHS STARTS NUMBERS
     "i inner_precise, i sparse_mode, i pse_type, T! dq, T! dk, T! dv, T! dpse)", backward},
    {"FlashAttentionUnpaddingScoreGradV3(T query, T? query_rope, T key, T? key_rope, T value, T dy, " MASKS SAVED "I? prefix, " LENGTHS STARTS NUMBERS
     "i inner_precise, i sparse_mode, i pse_type, T! dq, T! dq_rope, T! dk, T! dk_rope, T! dv, T! dpse)", backward},
    {"FlashAttentionUnpaddingScoreGradV4(T query, T key, T value, T dy, " MASKS SAVED "I? prefix, " LENGTHS NUMBERS
     "i inner_precise, i sparse_mode, T! dq, T! dk, T! dv, T! dpse, s softmax_layout)", backward},
    {"FlashAttentionUnpaddingScoreGradV5(T query, T? query_rope, T key, T? key_rope, T value, T dy, " MASKS SAVED "T? sink, I? prefix, " LENGTHS STARTS NUMBERS
     "i inner_precise, i sparse_mode, i pse_type, s softmax_layout, T! dq, T! dq_rope, T! dk, T! dk_rope, T! dv, T! dpse, T! dsink)", backward},
});
}  // namespace
}  // namespace air_sim

#undef MASKS
#undef LENGTHS
#undef STARTS
#undef SCALES
#undef NUMBERS
#undef RESULTS
#undef SAVED
