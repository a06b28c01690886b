// The attention of inference: caches in pages, lengths per batch, masks by mode, quantised keys and outputs.
#include "attention.h"
#include "fused.h"

namespace air_sim {
namespace {
bool given(const Call& c, const char* name) { return c.knows(name) && c.has(name); }
Tensor tensor_or_none(const Call& c, const char* name) { return given(c, name) ? c.tensor(name) : Tensor(); }

void refuse_unimplemented(const Call& c) {
  for (const char* name : {"query_padding", "kv_padding", "key_prefix", "value_prefix", "dequant_scale1", "quant_scale1", "dequant_scale2",
                           "key_rope_scale", "query_scale"})
    TORCH_CHECK(!given(c, name), "the input ", name, " of ", c.definition.name, " is not implemented by air-sim");
}

// "BSND_NBSD": the layout of the inputs, and of the output.
std::string input_layout(const std::string& layout) { return layout.substr(0, layout.find('_')); }
std::string output_layout(const std::string& layout) {
  auto at = layout.find('_');
  return at == std::string::npos ? layout : layout.substr(at + 1);
}

// A paged cache as [1, N, length, D]: [blocks, size, H] or [blocks, N, size, D] or, in strips, [blocks, N, D/w, size, w].
Tensor from_pages(const Tensor& cache, const Tensor& blocks, int64_t length, int64_t heads) {
  Tensor pages = cache.index_select(0, blocks);
  if (cache.dim() == 3) pages = pages.view({pages.size(0), pages.size(1), heads, -1}).transpose(1, 2);
  if (cache.dim() == 5) pages = pages.transpose(2, 3).flatten(3);
  return pages.transpose(0, 1).flatten(1, 2).narrow(1, 0, length).unsqueeze(0);
}

// Keys or values stored in int8: (x + offset) * scale.
Tensor widened(const Call& c, const Tensor& x, const char* scale, const char* offset, int64_t which) {
  if (x.scalar_type() != at::kChar) return x;
  Tensor s = tensor_or_none(c, scale), o = tensor_or_none(c, offset);
  if (!s.defined()) {
    s = tensor_or_none(c, "antiquant_scale");
    o = tensor_or_none(c, "antiquant_offset");
    TORCH_CHECK(s.defined(), "int8 keys and values need an antiquant scale");
    s = s.select(0, which);
    if (o.defined()) o = o.select(0, which);
  }
  auto spread = [&](const Tensor& t) {
    if (t.numel() == 1) return t.reshape({}).to(at::kFloat);
    TORCH_CHECK(t.numel() == x.size(1) * x.size(3), "an antiquant scale of shape ", t.sizes(), " is not implemented by air-sim");
    return t.to(at::kFloat).reshape({1, x.size(1), 1, x.size(3)});
  };
  Tensor wide = x.to(at::kFloat);
  return (o.defined() ? wide + spread(o) : wide) * spread(s);
}

struct Problem {
  std::string layout;
  int64_t heads, key_heads;
  Tensor query, query_rope;                // [B, N, S, D], or packed [T, N, D]
  std::vector<Tensor> key, value;          // one tensor, or one per batch
  Tensor key_rope, table;
  std::vector<int64_t> query_lengths, key_lengths;
  bool packed;
};

bool is_packed(const std::string& layout) { return layout == "TND" || layout == "NTD"; }
Tensor tokens_first(const Tensor& x, const std::string& layout) { return layout == "NTD" ? x.transpose(0, 1) : x; }

Problem problem_of(const Call& c) {
  Problem p;
  p.layout = input_layout(c.text("layout"));
  if (p.layout == "SH") p.layout = "BSH";
  p.heads = c.integer("heads");
  p.key_heads = c.knows("key_heads") && c.integer("key_heads") > 0 ? c.integer("key_heads") : p.heads;
  p.packed = is_packed(p.layout);
  auto laid = [&](const Tensor& x, int64_t heads) {
    if (!x.defined()) return x;
    return p.packed ? tokens_first(x, p.layout) : to_bnsd(x, p.layout, heads);
  };
  p.query = laid(c.tensor("query"), p.heads);
  p.query_rope = laid(tensor_or_none(c, "query_rope"), p.heads);
  p.table = tensor_or_none(c, "table");
  bool paged = p.table.defined();
  bool lists = c.knows("keys");
  for (const Tensor& k : lists ? c.tensors("keys") : std::vector<Tensor>{c.tensor("key")}) p.key.push_back(paged ? k : laid(k, p.key_heads));
  for (const Tensor& v : lists ? c.tensors("values") : std::vector<Tensor>{c.tensor("value")}) p.value.push_back(paged ? v : laid(v, p.key_heads));
  p.key_rope = paged ? tensor_or_none(c, "key_rope") : laid(tensor_or_none(c, "key_rope"), p.key_heads);
  if (c.knows("query_lengths")) p.query_lengths = c.ints("query_lengths");
  p.key_lengths = c.ints("key_lengths");
  return p;
}

int64_t batches_of(const Problem& p) { return p.packed ? static_cast<int64_t>(p.query_lengths.size()) : p.query.size(0); }

// Lengths of packed sequences are cumulative; keys in pages have plain lengths.
int64_t length_of(const std::vector<int64_t>& lengths, int64_t batch, bool cumulative, int64_t otherwise) {
  if (lengths.empty()) return otherwise;
  size_t at = lengths.size() == 1 ? 0 : static_cast<size_t>(batch);
  return cumulative && at > 0 ? lengths[at] - lengths[at - 1] : lengths[at];
}

Tensor query_of(const Problem& p, const Tensor& x, int64_t batch) {
  if (p.packed) return rows_of_batch(x, p.query_lengths, static_cast<size_t>(batch)).transpose(0, 1).unsqueeze(0);
  const int64_t size = x.size(2);  // with one query CANN takes the operator of decoding, which is told no lengths of them
  return x.narrow(0, batch, 1).narrow(2, 0, size == 1 ? 1 : length_of(p.query_lengths, batch, false, size));
}

Tensor keys_of(const Problem& p, const std::vector<Tensor>& list, int64_t batch) {
  if (p.table.defined()) {
    TORCH_CHECK(!p.key_lengths.empty(), "a block table needs the lengths of the keys");
    int64_t length = length_of(p.key_lengths, batch, false, 0), size = list[0].dim() == 3 ? list[0].size(1) : list[0].size(list[0].dim() == 5 ? 3 : 2);
    Tensor blocks = p.table[batch].narrow(0, 0, (length + size - 1) / size).to(at::kLong);
    return from_pages(list[0], blocks, length, p.key_heads);
  }
  if (list.size() > 1) return list[static_cast<size_t>(batch)].narrow(2, 0, length_of(p.key_lengths, batch, false, list[static_cast<size_t>(batch)].size(2)));
  if (p.packed) return rows_of_batch(list[0], p.key_lengths.empty() ? p.query_lengths : p.key_lengths, static_cast<size_t>(batch)).transpose(0, 1).unsqueeze(0);
  return list[0].narrow(0, batch, 1).narrow(2, 0, length_of(p.key_lengths, batch, false, list[0].size(2)));
}

Tensor mask_of(const Call& c, const Problem& p, int64_t batch) {
  Tensor mask = tensor_or_none(c, "mask");
  if (!mask.defined() || mask.numel() == 0) return Tensor();
  bool per_batch = mask.dim() > 2 || (mask.dim() == 2 && !p.packed && p.query.size(2) == 1 && mask.size(0) == p.query.size(0));
  if (!per_batch) return mask;
  Tensor one = mask.narrow(0, mask.size(0) > 1 ? batch : 0, 1);
  return mask.dim() == 2 ? one.view({1, 1, 1, -1}) : one;
}

Attention attention_of(const Call& c, const Problem& p, int64_t batch) {
  Attention a;
  a.query = query_of(p, p.query, batch);
  a.key = widened(c, keys_of(p, p.key, batch), "key_scale", "key_offset", 0);
  a.value = widened(c, keys_of(p, p.value, batch), "value_scale", "value_offset", 1);
  if (p.query_rope.defined()) {
    a.query = at::cat({a.query, query_of(p, p.query_rope, batch)}, -1);
    a.key = at::cat({a.key, keys_of(p, {p.key_rope}, batch)}, -1);
  }
  a.mask = mask_of(c, p, batch);
  a.sink = tensor_or_none(c, "sink");
  a.scale = c.real("scale");
  a.position = tensor_or_none(c, "pse");
  if (a.position.defined()) {
    a.position = a.position.narrow(0, a.position.size(0) > 1 ? batch : 0, 1).narrow(-1, 0, a.key.size(2));
    a.position_type = 0;
  }
  if (c.knows("sparse_mode")) a.visible = {c.integer("sparse_mode"), c.integer("pre_tokens"), c.integer("next_tokens"), {}};
  if (a.mask.defined() && a.visible.sparse_mode >= 2) a.mask = at::zeros({1, 1}, at::kBool);  // compressed: only its presence counts
  return a;
}

Tensor finished(const Call& c, const Tensor& out, at::ScalarType type) {
  if (!given(c, "quant_scale2")) return out;
  Tensor scaled = out.to(at::kFloat) * c.tensor("quant_scale2").to(at::kFloat).reshape({-1})[0];
  if (given(c, "quant_offset2")) scaled = scaled + c.tensor("quant_offset2").to(at::kFloat).reshape({-1})[0];
  return narrow_to(scaled, type);
}

Tensor padded(const Tensor& x, int64_t length, double value) {
  return x.size(2) == length ? x : at::constant_pad_nd(x, {0, 0, 0, length - x.size(2)}, value);
}

void infer_attention(Call& c) {
  refuse_unimplemented(c);
  Problem p = problem_of(c);
  std::vector<Tensor> outs, sums;
  bool want_lse = c.knows("want_lse") && c.flag("want_lse");
  for (int64_t b = 0; b < batches_of(p); ++b) {
    AttentionResult r = attend(attention_of(c, p, b));
    outs.push_back(p.packed ? r.out[0].transpose(0, 1) : padded(r.out, p.query.size(2), 0));
    if (!want_lse) continue;
    Tensor lse = r.maximum + r.sum.log();
    sums.push_back(p.packed ? lse[0].transpose(0, 1) : padded(lse, p.query.size(2), INFINITY));
  }
  Tensor target = c.tensor("out"), out = finished(c, at::cat(outs), target.scalar_type());
  std::string layout = output_layout(c.text("layout"));
  if (layout == "SH") layout = "BSH";
  if (p.packed) {
    c.write("out", layout == "NTD" ? out.transpose(0, 1) : out);
  } else {
    c.write("out", from_bnsd(out, layout));
  }
  if (want_lse) c.write("lse", at::cat(sums));
}

#define QKV "T query, L keys, L values, T? pse, T? mask, I? query_lengths, I? key_lengths, "
#define QUANT "T? dequant_scale1, T? quant_scale1, T? dequant_scale2, T? quant_scale2, T? quant_offset2, "
#define PAGES "T? antiquant_scale, T? antiquant_offset, T? table, T? query_padding, T? kv_padding, "
#define KV_QUANT "T? key_scale, T? key_offset, T? value_scale, T? value_offset, T? key_prefix, T? value_prefix, "
#define NUMBERS                                                                                                         \
  "i heads, d scale, i pre_tokens, i next_tokens, s layout, i key_heads, i sparse_mode, i inner_precise, i block_size, " \
  "i antiquant_mode, b want_lse, i key_mode, i value_mode, "
const Family inference({
    {"FusedInferAttentionScoreV2(" QKV QUANT PAGES KV_QUANT "I? prefix_length, " NUMBERS "T! out, T! lse)", infer_attention},
    {"FusedInferAttentionScoreV3(" QKV QUANT PAGES KV_QUANT "I? prefix_length, T? query_rope, T? key_rope, T? key_rope_scale, " NUMBERS
     "T! out, T! lse)", infer_attention},
    {"FusedInferAttentionScoreV4(" QKV QUANT PAGES KV_QUANT "I? prefix_length, T? query_rope, T? key_rope, T? key_rope_scale, T? query_scale, T? sink, "
     NUMBERS "i query_mode, T! out, T! lse)", infer_attention},
    {"FusedInferAttentionScoreV5(" QKV QUANT PAGES KV_QUANT "I? prefix_length, T? query_rope, T? key_rope, T? key_rope_scale, T? query_scale, T? sink, "
     "p q_start, p kv_start, " NUMBERS "i query_mode, i pse_type, T! out, T! lse)", infer_attention},
    {"PromptFlashAttentionV3(T query, T key, T value, T? pse, T? mask, I? query_lengths, I? key_lengths, " QUANT
     "i heads, d scale, i pre_tokens, i next_tokens, s layout, i key_heads, i sparse_mode, i inner_precise, T! out)", infer_attention},
    {"IncreFlashAttentionV4(T query, L keys, L values, T? pse, T? mask, I? key_lengths, " QUANT
     "T? antiquant_scale, T? antiquant_offset, T? table, T? kv_padding, i heads, d scale, s layout, i key_heads, i block_size, i inner_precise, T! out)",
     infer_attention},
});
}  // namespace
}  // namespace air_sim

#undef QKV
#undef QUANT
#undef PAGES
#undef KV_QUANT
#undef NUMBERS
