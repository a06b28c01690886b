// Attention over packed sequences and over caches in pages, step by step in single precision.
#include "operation.h"

namespace air_sim {
namespace {
using atb::infer::PagedAttentionParam;
using atb::infer::SelfAttentionParam;

// One sequence: queries [S, N, D], keys [L, M, D], values [L, M, E], and what is added to the scores, [N, S, L] or less.
// `sums`, where it is asked for: the logarithm of each row's sum, [S, N, 1].
Tensor attend_one(const Tensor& query, Tensor key, Tensor value, double scale, const Tensor& added, Tensor* sums = nullptr) {
  const int64_t groups = query.size(1) / key.size(1);
  if (groups > 1) {
    key = key.repeat_interleave(groups, 1);
    value = value.repeat_interleave(groups, 1);
  }
  Tensor scores = at::matmul(query.to(at::kFloat).transpose(0, 1), key.to(at::kFloat).permute({1, 2, 0})) * scale;
  if (added.defined()) scores = scores + added;
  if (sums) *sums = scores.logsumexp({-1}, true).transpose(0, 1);
  return at::matmul(at::softmax(scores, -1), value.to(at::kFloat).transpose(0, 1)).transpose(0, 1);
}

// The last `queries` of `keys` tokens see what is before them.
Tensor causal(int64_t queries, int64_t keys) {
  const Tensor hidden = at::ones({queries, keys}, at::kBool).triu(keys - queries + 1);
  return at::zeros({queries, keys}).masked_fill_(hidden, -std::numeric_limits<float>::infinity());
}

// A mask holds what is added to the scores. In bfloat16 callers also write a 1 where a key is hidden.
Tensor addend(const Tensor& mask) {
  const Tensor wide = mask.to(at::kFloat);
  return at::where(wide > 0, wide * -10000.0, wide);
}

// The part of a mask [S, L], [1 or B, S, L] or [B, N, S, L] that belongs to queries of a sequence.
Tensor part_of(const Tensor& mask, int64_t sequence, int64_t first, int64_t queries, int64_t keys) {
  Tensor own = mask;
  while (own.dim() > 3 || (own.dim() == 3 && own.size(0) == 1)) own = own.select(0, own.size(0) == 1 ? 0 : sequence);
  return addend(own.narrow(-2, own.size(-2) == 1 ? 0 : first, own.size(-2) == 1 ? 1 : queries).narrow(-1, 0, keys));
}

std::vector<int64_t> lengths_of(const Tensor& lengths) {
  const Tensor all = lengths.to(at::kLong).reshape({-1});
  return {all.data_ptr<int64_t>(), all.data_ptr<int64_t>() + all.numel()};
}

void refuse(bool wrong, const char* what) { TORCH_CHECK(!wrong, what, " of libatb's attention is not implemented by air-sim"); }

Tensor in_heads(const Tensor& x, int64_t heads) { return x.dim() == 2 ? x.reshape({x.size(0), heads, -1}) : x; }

// Writes the rows of a result from `first` on, in whatever shape they have there.
void put(const Tensor& out, int64_t first, const Tensor& result) {
  const Tensor place = out.narrow(0, first, result.size(0));
  place.copy_(result.reshape(place.sizes()));
}

// Inputs: query, keys, (values), table, lengths of keys, (mask), (lengths of queries).
void paged(const PagedAttentionParam& p, const Tensors& in, const Tensors& out) {
  const bool shared = p.value_size > 0;
  const Tensor query = in_heads(in[0], p.heads), table = in[shared ? 2 : 3];
  const std::vector<int64_t> keys = lengths_of(in[shared ? 3 : 4]);
  const Tensor mask = p.mask == PagedAttentionParam::kNoMask ? Tensor() : in.at(shared ? 4 : 5);
  const std::vector<int64_t> queries = p.several ? lengths_of(in.back()) : std::vector<int64_t>(keys.size(), 1);
  int64_t first = 0;
  for (size_t i = 0; i < keys.size(); first += queries[i++]) {
    const Tensor key = from_cache(in[1], table[i], keys[i], p.key_heads);
    const Tensor value = shared ? key.narrow(-1, 0, p.value_size) : from_cache(in[2], table[i], keys[i], p.key_heads);
    Tensor added;
    if (p.mask == PagedAttentionParam::kNormCompress) added = causal(queries[i], keys[i]);
    else if (p.mask == PagedAttentionParam::kSpec) added = part_of(mask, i, first, queries[i], keys[i]);
    else if (mask.defined()) added = part_of(mask, i, 0, queries[i], keys[i]);
    put(out[0], first, attend_one(query.narrow(0, first, queries[i]), key, value, p.scale, added));
  }
}

// Inputs: query, key, value, (mask), lengths. All sequences follow each other.
void packed(const SelfAttentionParam& p, const Tensors& in, const Tensors& out) {
  const bool masked = p.mask != SelfAttentionParam::kNoMask;
  const Tensor query = in_heads(in[0], p.heads), key = in_heads(in[1], p.key_heads), value = in_heads(in[2], p.key_heads);
  const std::vector<int64_t> lengths = lengths_of(in.at(masked ? 4 : 3));
  int64_t first = 0;
  for (size_t i = 0; i < lengths.size(); first += lengths[i++]) {
    auto own = [&](const Tensor& x) { return x.narrow(0, first, lengths[i]); };
    Tensor added;
    if (p.mask == SelfAttentionParam::kNormCompress) added = causal(lengths[i], lengths[i]);
    else if (masked) added = part_of(in[3], i, 0, lengths[i], lengths[i]);
    put(out[0], first, attend_one(own(query), own(key), own(value), p.query_scale * p.scale, added));
  }
}

// Inputs: query, keys, values, table, mask, lengths of queries, lengths of keys.
void behind_a_prefix(const SelfAttentionParam& p, const Tensors& in, const Tensors& out) {
  const Tensor query = in_heads(in[0], p.heads);
  const std::vector<int64_t> queries = lengths_of(in.at(5)), keys = lengths_of(in.at(6));
  int64_t first = 0;
  for (size_t i = 0; i < keys.size(); first += queries[i++]) {
    const Tensor key = from_cache(in[1], in[3][i], keys[i], p.key_heads), value = from_cache(in[2], in[3][i], keys[i], p.key_heads);
    const Tensor own = query.narrow(0, first, queries[i]);
    put(out[0], first, attend_one(own, key, value, p.query_scale * p.scale, causal(queries[i], keys[i])));
  }
}
}  // namespace

void attend_latent(const Latent& l) {
  const std::vector<int64_t> keys = lengths_of(l.key_lengths);
  const std::vector<int64_t> queries = l.query_lengths.defined() ? lengths_of(l.query_lengths) : std::vector<int64_t>(keys.size(), 1);
  const Tensor query = at::cat({l.query, l.query_rope}, -1);
  int64_t first = 0;
  for (size_t i = 0; i < keys.size(); first += queries[i++]) {
    const Tensor value = from_cache(l.cache, l.table[i], keys[i], 1), rope = from_cache(l.cache_rope, l.table[i], keys[i], 1);
    Tensor added, sums;
    if (l.free) added = causal(queries[i], keys[i]);
    else if (l.mask.defined()) added = part_of(l.mask, i, first, queries[i], keys[i]);
    const Tensor own = query.narrow(0, first, queries[i]);
    put(l.out, first, attend_one(own, at::cat({value, rope}, -1), value, l.scale, added, &sums));
    if (l.sums.defined()) put(l.sums, first, sums);
  }
}

AtbKernel kernel_of(const PagedAttentionParam& p) {
  refuse(p.quant != 0, "a quantised cache");
  refuse(p.compression != 0, "a compressed cache");
  refuse(p.layout != 0, "a layout other than BSND");
  refuse(p.scaling != 0, "a scale for each query");
  refuse(p.mask == PagedAttentionParam::kMaskFree, "a mask of type MASK_FREE");
  return [p](const Tensors& in, const Tensors& out) { paged(p, in, out); };
}

AtbKernel kernel_of(const SelfAttentionParam& p) {
  refuse(p.quant != 0, "a quantised input");
  refuse(p.layout != 0, "a layout other than BSND");
  refuse(p.scaling != 0, "a scale for each query");
  refuse(p.clamp != 0, "a clamp");
  refuse(p.window != 0, "a window");
  refuse(p.mask > SelfAttentionParam::kNormCompress, "a compressed mask of positions");
  refuse(p.calculation < SelfAttentionParam::kPacked, "a sequence that is padded");
  if (p.calculation == SelfAttentionParam::kPacked)
    return [p](const Tensors& in, const Tensors& out) { packed(p, in, out); };
  refuse(p.mask != SelfAttentionParam::kNormCompress, "a mask behind a prefix");
  return [p](const Tensors& in, const Tensors& out) { behind_a_prefix(p, in, out); };
}
}  // namespace air_sim
