// Writes into caches: scatter updates, quantised updates, the key-value caches of attention, and sampling filters.
#include "fused.h"

namespace air_sim {
namespace {
// indices[..., :depth] point at slices of self.
void scatter_nd_update(Call& c) {
  Tensor self = c.tensor("self"), indices = c.tensor("indices").to(at::kLong), updates = c.tensor("updates");
  int64_t depth = indices.size(-1);
  c10::List<std::optional<Tensor>> list;
  for (int64_t d = 0; d < depth; ++d) list.push_back(indices.select(-1, d));
  self.index_put_(list, updates.to(self.scalar_type()));
}

// Entry b of indices: where along the axis the update of batch b begins, or the pair (batch, position).
void write_slices(const Tensor& self, const Tensor& indices, const Tensor& updates, int64_t axis) {
  int64_t dim = axis < 0 ? axis + self.dim() : axis;
  TORCH_CHECK(dim > 0, "the axis of a scatter update cannot be the batch");
  Tensor places = indices.to(at::kLong).contiguous();
  for (int64_t b = 0; b < places.size(0); ++b) {
    int64_t batch = places.dim() == 2 ? places[b][0].item<int64_t>() : b;
    int64_t from = places.dim() == 2 ? places[b][1].item<int64_t>() : places[b].item<int64_t>();
    self.select(0, batch).narrow(dim - 1, from, updates.size(dim)).copy_(updates.select(0, b));
  }
}
void scatter_update(Call& c) { write_slices(c.tensor("self"), c.tensor("indices"), c.tensor("updates"), c.integer("axis")); }

void quant_scatter(Call& c) {
  Tensor self = c.tensor("self"), updates = c.tensor("updates").to(at::kFloat);
  int64_t axis = c.integer("quant_axis");
  std::vector<int64_t> shape(updates.dim(), 1);
  shape[axis < 0 ? axis + updates.dim() : axis] = -1;
  Tensor scaled = updates / c.tensor("scales").to(at::kFloat).reshape({-1}).view(shape);
  if (c.has("zeros")) scaled = scaled + c.tensor("zeros").to(at::kFloat).reshape({-1}).view(shape);
  write_slices(self, c.tensor("indices"), narrow_to(scaled, self.scalar_type()), c.integer("axis"));
}

// ---------------------------------------------------------------- paged caches
// A cache of blocks as rows, one per slot.  The NZ form keeps the columns in strips of 32 bytes.
struct Slots {
  Tensor cache;
  bool strips;
  void write(int64_t slot, const Tensor& row) const {
    if (!strips) {
      cache.view({-1, row.numel()})[slot].copy_(row.reshape({-1}));
      return;
    }
    int64_t width = 32 / static_cast<int64_t>(cache.element_size()), block = cache.size(1), count = row.numel() / width;
    Tensor blocks = cache.view({cache.size(0), count, block, width});
    blocks.select(0, slot / block).select(1, slot % block).copy_(row.reshape({count, width}));
  }
};

// The slot of each token: one entry per token, or one per block of tokens.
int64_t slot_of(const Tensor& index, const std::string& mode, int64_t batch, int64_t at, int64_t length, int64_t block) {
  if (mode.find("BLK") == std::string::npos) return index.reshape({-1})[batch * length + at].item<int64_t>();
  int64_t per_batch = (length + block - 1) / block;
  int64_t first = index.reshape({-1})[batch * per_batch + at / block].item<int64_t>();
  return first < 0 ? first : first + at % block;
}

void store(const Tensor& cache, const Tensor& index, const std::string& mode, const Tensor& values) {
  int64_t length = values.size(2);
  for (int64_t b = 0; b < values.size(0); ++b)
    for (int64_t t = 0; t < length; ++t) {
      Tensor row = values[b].select(1, t);
      if (mode == "Norm" || mode.empty()) {
        int64_t place = index[b][t].item<int64_t>();
        if (place >= 0) cache[b].select(1, place).copy_(row);
      } else {
        int64_t slot = slot_of(index, mode, b, t, length, cache.size(1));
        if (slot >= 0) Slots{cache, mode.find("NZ") != std::string::npos}.write(slot, row);
      }
    }
}

// Keys and values of all heads to the slots of their tokens; a cache of strips lies [blocks, strips, block, 32 bytes].
void scatter_pa(Call& c) {
  const std::string mode = c.text("mode");
  for (const char* name : {"compress_lens", "compress_offsets", "seq_lens"})
    TORCH_CHECK(!c.has(name), name, " of aclnnScatterPaKvCache is not implemented by air-sim");
  TORCH_CHECK(c.text("scatter_mode") == "None", "the scatter mode ", c.text("scatter_mode"), " of aclnnScatterPaKvCache is not implemented by air-sim");
  const Tensor slots = c.tensor("slots").to(at::kLong).contiguous();
  const auto store_all = [&](const Tensor& rows, Tensor cache) {
    TORCH_CHECK(rows.dim() == 3 && cache.dim() == 4, "aclnnScatterPaKvCache takes rows of three axes and a cache of four");
    if (mode == "PA_NZ") cache = cache.transpose(1, 2);
    const int64_t block = cache.size(1), count = cache.size(0) * block;
    for (int64_t t = 0; t < slots.numel(); ++t) {
      const int64_t slot = slots[t].item<int64_t>();
      TORCH_CHECK(slot < count, "slot ", slot, " of token ", t, " lies outside a cache of ", count, " slots");
      if (slot >= 0) cache[slot / block][slot % block].copy_(rows[t].reshape({cache.size(2), cache.size(3)}));
    }
  };
  store_all(c.tensor("key"), c.tensor("key_cache"));
  store_all(c.tensor("value"), c.tensor("value_cache"));
}

Tensor for_cache(const Call& c, const Tensor& x, const Tensor& cache, const char* scale, const char* offset) {
  if (!c.has(scale)) return x.to(cache.scalar_type());
  Tensor scaled = x.to(at::kFloat) * c.tensor(scale).to(at::kFloat);
  if (c.has(offset)) scaled = scaled + c.tensor(offset).to(at::kFloat);
  return narrow_to(scaled, cache.scalar_type());
}

// kv = [what is normalised | what is rotated]
void kv_rms_norm_rope_cache(Call& c) {
  for (const auto& p : c.definition.parameters)
    TORCH_CHECK(p.name != "value" || !c.has("value"), "the value input of aclnnKvRmsNormRopeCacheV2 is not implemented by air-sim");
  Tensor kv = c.tensor("kv"), gamma = c.tensor("gamma"), cos = c.tensor("cos");
  int64_t normed = gamma.size(0), turned = kv.size(-1) - normed;
  Tensor latent = rms_norm(kv.narrow(-1, 0, normed), gamma, c.real("eps")).out;
  Tensor rope = rotate(kv.narrow(-1, normed, turned), cos, c.tensor("sin"), Rotary::kInterleaveHalf);
  std::string mode = c.text("mode");
  Tensor index = c.tensor("index"), k_cache = c.tensor("k_cache"), latent_cache = c.tensor("latent_cache");
  store(k_cache, index, mode, for_cache(c, rope, k_cache, "k_scale", "k_offset"));
  store(latent_cache, index, mode, for_cache(c, latent, latent_cache, "latent_scale", "latent_offset"));
  if (!c.flag("want_kv")) return;
  c.write("k_rope", rope);
  c.write("latent", latent);
}

// ---------------------------------------------------------------- the first half of multi-head latent attention
Tensor rope_heads(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  return rotate(x, x.dim() > cos.dim() ? cos.unsqueeze(-2) : cos, x.dim() > sin.dim() ? sin.unsqueeze(-2) : sin, Rotary::kInterleaveHalf);
}
void mla_prolog(Call& c) {
  for (const auto& p : c.definition.parameters)
    TORCH_CHECK(p.name.find("dequant_scale_x") == std::string::npos || !c.has(p.name.c_str()), "quantised weights of aclnnMlaProlog are not implemented by air-sim");
  Tensor x = c.tensor("x").to(at::kFloat), uk = c.tensor("weight_uk").to(at::kFloat), cos = c.tensor("cos"), sin = c.tensor("sin");
  int64_t heads = uk.size(0), nope = uk.size(1), latent_size = uk.size(2);
  Tensor compressed = rms_norm(at::matmul(x, c.tensor("weight_dq").to(at::kFloat)), c.tensor("gamma_cq"), c.real("eps_cq")).out;
  Tensor q = at::matmul(compressed, c.tensor("weight_uq_qr").to(at::kFloat)).unflatten(-1, {heads, -1});
  c.write("query", at::einsum("...nd,ndc->...nc", {q.narrow(-1, 0, nope), uk}));
  c.write("query_rope", rope_heads(q.narrow(-1, nope, q.size(-1) - nope), cos, sin));
  Tensor kv = at::matmul(x, c.tensor("weight_dkv_kr").to(at::kFloat));
  Tensor latent = rms_norm(kv.narrow(-1, 0, latent_size), c.tensor("gamma_ckv"), c.real("eps_ckv")).out;
  Tensor rope = rope_heads(kv.narrow(-1, latent_size, kv.size(-1) - latent_size), cos, sin);
  Tensor kv_cache = c.tensor("kv_cache"), kr_cache = c.tensor("kr_cache"), index = c.tensor("cache_index");
  auto tokens = [](const Tensor& t) { return t.reshape({1, 1, -1, t.size(-1)}); };
  std::string mode = c.text("mode").find("BLK") == std::string::npos ? c.text("mode") : "PA";
  TORCH_CHECK(mode == c.text("mode"), "the cache mode ", c.text("mode"), " of aclnnMlaProlog is not implemented by air-sim");
  store(kv_cache, index, mode, tokens(latent.to(kv_cache.scalar_type())));
  store(kr_cache, index, mode, tokens(rope.to(kr_cache.scalar_type())));
}

// ---------------------------------------------------------------- top-k and top-p filters
void top_k_top_p(Call& c) {
  Tensor logits = c.tensor("logits").to(at::kFloat);
  auto [sorted, index] = at::sort(logits, true, -1, false);
  int64_t count = logits.size(-1);
  if (c.has("k")) {
    Tensor place = (count - c.tensor("k").to(at::kLong)).unsqueeze(-1);
    sorted = sorted.masked_fill(sorted < sorted.gather(-1, place), -INFINITY);
  }
  if (c.has("p")) {
    Tensor hidden = at::softmax(sorted, -1).cumsum(-1) <= (1 - c.tensor("p").to(at::kFloat)).unsqueeze(-1);
    hidden.select(-1, count - 1).fill_(false);
    sorted = sorted.masked_fill(hidden, -INFINITY);
  }
  c.write("out", at::zeros_like(logits).scatter(-1, index, sorted));
}

#define MLA                                                                                                          \
  "T x, T weight_dq, T weight_uq_qr, T weight_uk, T weight_dkv_kr, T gamma_cq, T gamma_ckv, T sin, T cos, "
#define SCALES                                                                                                       \
  "T? dequant_scale_x, T? dequant_scale_w_dq, T? dequant_scale_w_uq_qr, T? dequant_scale_w_dkv_kr, T? quant_scale_ckv, T? quant_scale_ckr, T? smooth, "
#define KV                                                                                                           \
  "(T kv, T gamma, T cos, T sin, T index, T! k_cache, T! latent_cache, T? k_scale, T? latent_scale, T? k_offset, T? latent_offset, "

const Family caches({
    {"ScatterNdUpdate(T! self, T indices, T updates)", scatter_nd_update},
    {"InplaceScatterUpdate(T! self, T indices, T updates, i axis)", scatter_update},
    {"InplaceQuantScatter(T! self, T indices, T updates, T scales, T? zeros, i axis, i quant_axis, i reduction)", quant_scatter},
    {"InplaceQuantScatterV2(T! self, T indices, T updates, T scales, T? zeros, i axis, i quant_axis, i reduction, s round)", quant_scatter},
    {"ScatterPaKvCache(T key, T! key_cache, T slots, T value, T! value_cache, T? compress_lens, T? compress_offsets, T? seq_lens, s mode, "
     "s scatter_mode, I? strides, I? offsets)", scatter_pa},
    {"KvRmsNormRopeCache" KV "d eps, s mode, b want_kv, T! k_rope, T! latent)", kv_rms_norm_rope_cache},
    {"KvRmsNormRopeCacheV2" KV "T? value, d eps, s mode, b want_kv, T! k_rope, T! latent)", kv_rms_norm_rope_cache},
    {"MlaPrologV2WeightNz(" MLA "T cache_index, T! kv_cache, T! kr_cache, " SCALES "d eps_cq, d eps_ckv, s mode, T! query, T! query_rope, T! dequant_scale_q)",
     mla_prolog},
    {"MlaPrologV3WeightNz(" MLA "T! kv_cache, T! kr_cache, T? cache_index, " SCALES "T? lengths, T? clip, d eps_cq, d eps_ckv, s mode, "
     "i weight_quant_mode, i kv_quant_mode, i query_quant_mode, i repo_mode, i scale_repo_mode, i tile_size, d qc_qr_scale, d kc_scale, "
     "T! query, T! query_rope, T! dequant_scale_q, T! query_norm, T! dequant_scale_norm)", mla_prolog},
    {"ApplyTopKTopP(T logits, T? p, T? k, T! out)", top_k_top_p},
});
}  // namespace
}  // namespace air_sim

#undef MLA
#undef SCALES
#undef KV
