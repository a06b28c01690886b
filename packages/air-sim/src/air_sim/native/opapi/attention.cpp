// Scores, mask, softmax, dropout, weighted sum; and the same backwards.
#include "attention.h"

namespace air_sim {
namespace {
Tensor wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

Tensor repeat_heads(const Tensor& x, int64_t heads) {
  TORCH_CHECK(x.size(1) > 0 && heads % x.size(1) == 0, heads, " query heads do not divide over ", x.size(1), " key heads");
  return x.size(1) == heads ? x : x.repeat_interleave(heads / x.size(1), 1);
}

Tensor sum_heads(const Tensor& x, int64_t heads) {
  return x.size(1) == heads ? x : x.view({x.size(0), heads, -1, x.size(2), x.size(3)}).sum(2);
}

Tensor diagonal_distance(int64_t queries, int64_t keys, int64_t shift) {
  auto options = at::TensorOptions().dtype(at::kLong);
  return at::arange(keys, options).unsqueeze(0) - at::arange(queries, options).unsqueeze(1) - shift;
}

Tensor hidden_by_mode(const Visibility& v, bool has_mask, int64_t batch, int64_t queries, int64_t keys) {
  int64_t corner = keys - queries;
  switch (v.sparse_mode) {
    case 0: {
      if (!has_mask || (v.before >= INT32_MAX && v.after >= INT32_MAX)) return Tensor();
      Tensor d = diagonal_distance(queries, keys, 0);
      return (d > v.after).logical_or(d < -v.before);
    }
    case 1: return Tensor();
    case 2: return diagonal_distance(queries, keys, 0) > 0;
    case 3: return diagonal_distance(queries, keys, corner) > 0;
    case 4: {
      Tensor d = diagonal_distance(queries, keys, corner);
      return (d > v.after).logical_or(d < -v.before);
    }
    case 5:
    case 6: {
      TORCH_CHECK(static_cast<int64_t>(v.prefix.size()) == batch, "prefix has ", v.prefix.size(), " values for ", batch, " batches");
      Tensor causal = diagonal_distance(queries, keys, corner) > 0;
      Tensor column = at::arange(keys, at::kLong).view({1, 1, 1, keys});
      return causal.logical_and(column >= at::tensor(v.prefix, at::kLong).view({batch, 1, 1, 1}));
    }
    default: TORCH_CHECK(false, "sparse_mode ", v.sparse_mode, " is not implemented by air-sim");
  }
}

Tensor linear_bias(const Attention& a, int64_t queries, int64_t keys) {
  Tensor distance = (diagonal_distance(queries, keys, a.query_start - a.key_start)).abs().to(at::kFloat);
  if (a.position_type == 3) distance = distance.sqrt();
  Tensor slope = a.position.to(at::kFloat);
  return -(slope.dim() == 1 ? slope.view({1, -1, 1, 1}) : slope.view({slope.size(0), slope.size(1), 1, 1})) * distance;
}

Tensor scores_of(const Attention& a, const Tensor& q, const Tensor& k) {
  Tensor scores = at::matmul(q, k.transpose(-1, -2));
  if (!a.position.defined()) return scores * a.scale;
  if (a.position_type == 1) return (scores + wide(a.position)) * a.scale;
  if (a.position_type == 0) return scores * a.scale + wide(a.position);
  return scores * a.scale + linear_bias(a, q.size(2), k.size(2));
}

struct Softmax {
  Tensor probabilities, maximum, sum;
};

Softmax softmax_of(const Attention& a, Tensor scores) {
  int64_t queries = scores.size(2), keys = scores.size(3);
  // Modes 2 to 6 build the mask themselves; what is passed is only its compressed form.
  bool compressed = a.visible.sparse_mode >= 2 && a.visible.sparse_mode != 5;
  bool explicit_mask = a.mask.defined() && !compressed;
  if (explicit_mask) scores = scores.masked_fill(spread_mask(a.mask, queries, keys), -INFINITY);
  Tensor hidden = hidden_by_mode(a.visible, a.mask.defined(), scores.size(0), queries, keys);
  if (hidden.defined()) scores = scores.masked_fill(hidden, -INFINITY);
  Tensor maximum = keys > 0 ? scores.amax(-1, true) : at::full({scores.size(0), scores.size(1), queries, 1}, -INFINITY);
  Tensor sink = a.sink.defined() ? wide(a.sink).view({1, -1, 1, 1}) : Tensor();
  if (sink.defined()) maximum = at::maximum(maximum, sink);
  Tensor safe = maximum.masked_fill(maximum == -INFINITY, 0);
  Tensor exponentials = (scores - safe).exp();
  Tensor sum = exponentials.sum(-1, true);
  if (sink.defined()) sum = sum + (sink - safe).exp();
  return {exponentials / sum.masked_fill(sum == 0, 1), maximum, sum};
}

Tensor dropped(const Attention& a, const Tensor& x) {
  return a.keep.defined() ? x * a.keep.to(x.scalar_type()) / a.keep_probability : x;
}
}  // namespace

Tensor spread_mask(const Tensor& mask, int64_t queries, int64_t keys) {
  Tensor hidden = mask.to(at::kBool);
  if (hidden.dim() == 2 && hidden.size(0) != queries) hidden = hidden.view({hidden.size(0), 1, 1, hidden.size(1)});
  if (hidden.dim() == 3) hidden = hidden.unsqueeze(1);
  TORCH_CHECK(hidden.size(-1) >= keys && (hidden.size(-2) == 1 || hidden.size(-2) >= queries), "the mask of shape ", mask.sizes(),
              " does not cover ", queries, " queries and ", keys, " keys");
  hidden = hidden.narrow(-1, 0, keys);
  return hidden.size(-2) == 1 ? hidden : hidden.narrow(-2, 0, queries);
}

AttentionResult attend(const Attention& a) {
  int64_t heads = a.query.size(1);
  Tensor q = wide(a.query), k = repeat_heads(wide(a.key), heads), v = repeat_heads(wide(a.value), heads);
  Softmax s = softmax_of(a, scores_of(a, q, k));
  return {at::matmul(dropped(a, s.probabilities), v).to(a.query.scalar_type()), s.maximum.to(at::kFloat), s.sum.to(at::kFloat)};
}

AttentionGradient attend_backward(const Attention& a, const Tensor& grad_out) {
  int64_t heads = a.query.size(1), key_heads = a.key.size(1);
  Tensor q = wide(a.query), k = repeat_heads(wide(a.key), heads), v = repeat_heads(wide(a.value), heads), g = wide(grad_out);
  Softmax s = softmax_of(a, scores_of(a, q, k));
  AttentionGradient result;
  result.value = sum_heads(at::matmul(dropped(a, s.probabilities).transpose(-1, -2), g), key_heads);
  Tensor weighted = dropped(a, at::matmul(g, v.transpose(-1, -2)));
  Tensor rows = (weighted * s.probabilities).sum(-1, true);
  Tensor grad_scores = s.probabilities * (weighted - rows);
  result.query = at::matmul(grad_scores, k) * a.scale;
  result.key = sum_heads(at::matmul(grad_scores.transpose(-1, -2), q) * a.scale, key_heads);
  if (a.position.defined() && a.position_type < 2) {
    Tensor grad = a.position_type == 1 ? grad_scores * a.scale : grad_scores;
    result.position = at::sum_to(grad, a.position.sizes());
  }
  if (a.sink.defined()) {
    Tensor share = (wide(a.sink).view({1, -1, 1, 1}) - s.maximum).exp() / s.sum;
    result.sink = -(share * rows).sum({0, 2, 3});
  }
  return result;
}

Tensor to_bnsd(const Tensor& x, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return x;
  if (layout == "BSND") return x.transpose(1, 2);
  if (layout == "NBSD") return x.transpose(0, 1);
  TORCH_CHECK(x.dim() == 3 && heads > 0 && x.size(2) % heads == 0, layout, " tensor of shape ", x.sizes(), " with ", heads, " heads");
  Tensor split = x.view({x.size(0), x.size(1), heads, x.size(2) / heads});
  if (layout == "BSH") return split.transpose(1, 2);
  if (layout == "SBH") return split.permute({1, 2, 0, 3});
  TORCH_CHECK(false, "the layout ", layout, " is not implemented by air-sim");
}

Tensor from_bnsd(const Tensor& x, const std::string& layout) {
  if (layout == "BNSD") return x;
  if (layout == "BSND") return x.transpose(1, 2);
  if (layout == "NBSD") return x.transpose(0, 1);
  if (layout == "BSH") return x.transpose(1, 2).flatten(2);
  if (layout == "SBH") return x.permute({2, 0, 1, 3}).flatten(2);
  TORCH_CHECK(false, "the layout ", layout, " is not implemented by air-sim");
}

Tensor rows_of_batch(const Tensor& packed, const std::vector<int64_t>& ends, size_t batch) {
  int64_t from = batch ? ends[batch - 1] : 0;
  return packed.narrow(0, from, ends[batch] - from);
}

Tensor unpack_bits(const Tensor& packed, at::IntArrayRef shape, int64_t first) {
  Tensor keep = at::zeros(shape, at::TensorOptions().dtype(at::kBool));
  Tensor bytes = packed.contiguous().view(at::kByte);
  TORCH_CHECK(bytes.numel() * 8 >= first + keep.numel(), "the mask has ", bytes.numel(), " bytes for ", keep.numel(), " elements");
  const uint8_t* byte = bytes.data_ptr<uint8_t>();
  bool* flag = keep.data_ptr<bool>();
  for (int64_t i = 0; i < keep.numel(); ++i) flag[i] = (byte[(first + i) / 8] >> ((first + i) % 8)) & 1;
  return keep;
}
}  // namespace air_sim
