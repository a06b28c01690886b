// Mixture of experts: gating, routing there and back, grouped products.
#include "fused.h"

namespace air_sim {
namespace {

// ---------------------------------------------------------------- gating
// Rows marked finished go to the expert after the last one.
void gating_softmax(Call& c, bool renormalise, bool rows) {
  Tensor x = c.tensor("x").to(at::kFloat);
  int64_t k = c.integer("k"), experts = x.size(-1);
  auto [values, index] = at::topk(renormalise ? x : at::softmax(x, -1), k, -1);
  if (renormalise) values = at::softmax(values, -1);
  if (c.has("finished")) index = index.masked_fill(c.tensor("finished").unsqueeze(-1), experts);
  c.write("y", values);
  c.write("experts", index);
  if (rows) {
    int64_t count = x.numel() / experts;
    c.write("rows", at::arange(count * k, at::kInt).view({k, count}).t().reshape(index.sizes()));
  } else if (c.flag("want_softmax")) {
    c.write("softmax", at::softmax(x, -1));
  }
}

// Only the best groups of experts stay in the choice; a group is as good as its best expert, or its best two.
Tensor within_best_groups(const Call& c, const Tensor& scores) {
  int64_t groups = c.integer("group_count"), chosen = c.integer("k_group");
  if (groups <= 1 || chosen >= groups) return scores;
  Tensor grouped = scores.view({scores.size(0), groups, -1});
  Tensor value = c.integer("group_select") == 0 ? grouped.amax(-1) : std::get<0>(grouped.topk(2, -1)).sum(-1);
  Tensor keep = at::zeros_like(value, at::kBool).scatter(1, std::get<1>(value.topk(chosen, -1)), true);
  return grouped.masked_fill(keep.logical_not().unsqueeze(-1), -INFINITY).view(scores.sizes());
}

void gating_topk(Call& c) {
  Tensor x = c.tensor("x").to(at::kFloat);
  bool sigmoid = c.integer("norm_type") == 1;
  TORCH_CHECK(c.integer("renorm") == 0, "renorm ", c.integer("renorm"), " is not implemented by air-sim");
  Tensor normed = sigmoid ? at::sigmoid(x) : at::softmax(x, -1);
  Tensor index;
  if (c.knows("table") && c.has("table")) {
    index = c.tensor("table").to(at::kLong).index_select(0, c.tensor("input_ids").to(at::kLong));
  } else {
    Tensor scores = c.has("bias") ? normed + c.tensor("bias").to(at::kFloat) : normed;
    index = std::get<1>(within_best_groups(c, scores).topk(c.integer("k"), -1));
  }
  Tensor y = normed.gather(-1, index);
  if (sigmoid) y = y / (y.sum(-1, true) + c.real("eps"));
  c.write("y", y * c.real("factor"));
  c.write("experts", index);
  if (c.flag("want_norm")) c.write("norm", normed);
}

// ---------------------------------------------------------------- routing
struct Routed {
  Tensor experts, source;  // of the rows in expert order: the expert, and the flat position in expert_idx
  int64_t active;          // rows that belong to an active expert
};
Routed route(const Tensor& expert_idx, int64_t first, int64_t last) {
  Tensor flat = expert_idx.reshape({-1}).to(at::kLong);
  Tensor inactive = (flat < first).logical_or(flat >= last);
  auto [sorted, source] = at::sort(flat.masked_fill(inactive, INT32_MAX), true, 0, false);
  return {sorted, source, flat.numel() - inactive.sum().item<int64_t>()};
}

Tensor counts_of(const Routed& r, int64_t first, int64_t last) {
  return at::bincount(r.experts.narrow(0, 0, r.active) - first, {}, last - first);
}

// type 0: sums up to each expert, 1: counts, 2: pairs of expert and count.
void write_counts(const Call& c, const char* name, const Tensor& counts, int64_t type, int64_t first) {
  if (!c.has(name)) return;
  Tensor result = type == 0 ? counts.cumsum(0) : counts;
  if (type == 2) {
    Tensor used = counts.nonzero().squeeze(-1);
    Tensor pairs = at::zeros(c.tensor(name).sizes(), at::kLong);
    pairs.narrow(0, 0, used.numel()).copy_(at::stack({used + first, counts.index_select(0, used)}, 1));
    result = pairs;
  }
  c.write(name, result);
}

// Where each row of expert_idx went; -1 for rows that were dropped.
Tensor destinations(const Routed& r, int64_t kept) {
  Tensor index = at::full({r.source.numel()}, -1, at::kLong);
  return index.scatter(0, r.source.narrow(0, 0, kept), at::arange(kept, at::kLong));
}

void expand_into_capacity(Call& c, const Tensor& x, const Routed& r, int64_t k, int64_t experts, int64_t capacity) {
  Tensor out = at::zeros({experts, capacity, x.size(1)}, x.options()), index = at::full({r.source.numel()}, -1, at::kLong);
  Tensor scale = c.knows("scale") && c.has("scale") ? c.tensor("scale").to(at::kFloat) : Tensor(), scales = at::zeros({experts, capacity}, at::kFloat);
  auto expert = r.experts.contiguous(), source = r.source.contiguous();
  int64_t place = 0;
  for (int64_t i = 0; i < r.active; ++i) {
    int64_t e = expert[i].item<int64_t>(), s = source[i].item<int64_t>();
    place = i > 0 && expert[i - 1].item<int64_t>() == e ? place + 1 : 0;
    if (place >= capacity) continue;
    out[e][place].copy_(x[s / k]);
    if (scale.defined()) scales[e][place].copy_(scale[s / k]);
    index[s] = e * capacity + place;
  }
  c.write("expanded_x", out.reshape(c.tensor("expanded_x").sizes()));
  c.write("expanded_rows", index);
  if (scale.defined()) c.write("expanded_scale", scales.reshape(c.tensor("expanded_scale").sizes()));
}

void write_rows(Call& c, const Tensor& rows, int64_t kept) {
  Tensor target = c.tensor("expanded_x"), full = at::zeros(target.sizes(), rows.options());
  int64_t fits = std::min(kept, target.size(0));
  full.narrow(0, 0, fits).copy_(rows.narrow(0, 0, fits));
  c.write("expanded_x", full);
}

void write_dynamic_quant(Call& c, const Routed& r, Tensor rows, int64_t kept, int64_t first) {
  rows = rows.to(at::kFloat);
  if (c.has("scale")) {
    Tensor smooth = c.tensor("scale").to(at::kFloat);
    rows = rows * (smooth.size(0) == 1 ? smooth : smooth.index_select(0, r.experts.narrow(0, 0, kept) - first));
  }
  Quantised q = quantise_rows(rows, c.tensor("expanded_x").scalar_type());
  write_rows(c, q.values, kept);
  Tensor scale = at::zeros(c.tensor("expanded_scale").sizes(), at::kFloat);
  scale.narrow(0, 0, kept).copy_(q.scale);
  c.write("expanded_scale", scale);
}

void write_scale_of_rows(Call& c, const Tensor& token, int64_t kept) {
  if (!c.has("scale") || !c.has("expanded_scale") || c.tensor("expanded_scale").numel() < kept) return;
  Tensor scale = at::zeros(c.tensor("expanded_scale").sizes(), at::kFloat);
  scale.narrow(0, 0, kept).copy_(c.tensor("scale").index_select(0, token));
  c.write("expanded_scale", scale);
}

void init_routing_three(Call& c) {
  Tensor x = c.tensor("x"), expert_idx = c.tensor("experts");
  auto range = c.ints("range");
  int64_t k = expert_idx.size(-1), first = range.size() == 2 ? range[0] : 0, last = range.size() == 2 ? range[1] : c.integer("expert_num");
  if (last <= first) last = expert_idx.max().item<int64_t>() + 1;
  Routed r = route(expert_idx, first, last);
  if (c.flag("want_counts")) write_counts(c, "counts", counts_of(r, first, last), c.integer("count_type"), first);
  if (c.integer("drop_pad") == 1) return expand_into_capacity(c, x, r, k, c.integer("expert_num"), c.integer("capacity"));
  int64_t active = c.integer("active_num"), kept = active > 0 ? std::min(active, r.active) : r.active;
  Tensor token = r.source.narrow(0, 0, kept).floor_divide(k), rows = x.index_select(0, token);
  if (c.integer("quant_mode") == 1) {
    write_dynamic_quant(c, r, rows, kept, first);
  } else {
    TORCH_CHECK(c.integer("quant_mode") == -1, "quant_mode ", c.integer("quant_mode"), " is not implemented by air-sim");
    write_rows(c, rows, kept);
    write_scale_of_rows(c, token, kept);
  }
  bool scatter = c.integer("row_type") == 1;
  Tensor order = at::full({r.source.numel()}, -1, at::kLong);
  order.narrow(0, 0, kept).copy_(r.source.narrow(0, 0, kept));
  c.write("expanded_rows", scatter ? order : destinations(r, kept));
}

void init_routing_two(Call& c) {
  Tensor x = c.tensor("x"), expert_idx = c.tensor("experts");
  int64_t k = expert_idx.size(-1), experts = std::max(c.integer("expert_num"), expert_idx.max().item<int64_t>() + 1);
  Routed r = route(expert_idx, 0, experts);
  Tensor counts = counts_of(r, 0, experts);
  if (c.integer("count_flag") > 0) write_counts(c, "counts", counts, c.integer("count_flag") == 1 ? 0 : 1, 0);
  if (c.flag("before_capacity")) c.write("before", counts);
  if (c.integer("drop_pad") == 1) return expand_into_capacity(c, x, r, k, experts, c.integer("capacity"));
  int64_t active = c.integer("active_num"), kept = active > 0 ? std::min(active, r.active) : r.active;
  write_rows(c, x.index_select(0, r.source.narrow(0, 0, kept).floor_divide(k)), kept);
  c.write("expanded_rows", destinations(r, r.active));
}

// The first version counts positions column by column: row_idx[i][j] = j * rows + i.
void init_routing_one(Call& c) {
  Tensor x = c.tensor("x"), flat = c.tensor("experts").reshape({-1}), rows = c.tensor("row_idx").reshape({-1}).to(at::kLong);
  auto [sorted, source] = at::sort(flat, true, 0, false);
  Tensor column = rows.index_select(0, source);
  int64_t kept = c.tensor("expanded_x").size(0);
  c.write("expanded_x", x.index_select(0, column.narrow(0, 0, kept).remainder(x.size(0))));
  c.write("expanded_rows", at::zeros_like(column).scatter(0, column, at::arange(column.numel(), at::kLong)));
  c.write("expanded_experts", sorted);
}

// out = skip1 + skip2 + sum over k of scale * (row + bias of its expert)
void finalize_routing(Call& c) {
  Tensor rows = c.tensor("rows").to(at::kFloat), target = c.tensor("out");
  rows = rows.reshape({-1, rows.size(-1)});
  Tensor position = c.tensor("positions").to(at::kLong).reshape({-1});
  int64_t count = target.size(0), k = position.numel() / count, mode = c.knows("mode") ? c.integer("mode") : 0;
  Tensor table = mode < 2 ? position.view({k, count}).t() : position.view({count, k});
  Tensor dropped = (table < 0).logical_or(table >= rows.size(0));
  Tensor chosen = rows.index_select(0, table.masked_fill(dropped, 0).reshape({-1})).view({count, k, -1});
  if (c.has("bias")) chosen = chosen + c.tensor("bias").to(at::kFloat).index_select(0, c.tensor("experts").to(at::kLong).reshape({-1})).view(chosen.sizes());
  chosen = chosen.masked_fill(dropped.unsqueeze(-1), 0);
  if (c.has("scales")) chosen = chosen * c.tensor("scales").to(at::kFloat).unsqueeze(-1);
  Tensor out = chosen.sum(1);
  for (const char* skip : {"skip1", "skip2"})
    if (c.has(skip)) out = out + c.tensor(skip).to(at::kFloat);
  c.write("out", out);
}

// ---------------------------------------------------------------- permutation of tokens, without experts' biases
void token_permute(Call& c) {
  Tensor tokens = c.tensor("tokens"), indices = c.tensor("indices");
  TORCH_CHECK(!c.flag("padded"), "padded_mode is not implemented by air-sim");
  int64_t k = indices.dim() == 1 ? 1 : indices.size(1), kept = c.tensor("permuted").size(0);
  Tensor order = at::argsort(indices.reshape({-1}), true, 0, false);
  c.write("permuted", tokens.index_select(0, order.narrow(0, 0, kept).floor_divide(k)));
  c.write("sorted", at::argsort(order, true, 0, false));
}
void token_permute_backward(Call& c) {
  Tensor grad = c.tensor("grad").to(at::kFloat), sorted = c.tensor("sorted").to(at::kLong), out = c.tensor("out");
  int64_t k = c.integer("k");
  Tensor valid = sorted < grad.size(0);
  Tensor rows = grad.index_select(0, sorted.clamp_max(grad.size(0) - 1)) * valid.unsqueeze(-1);
  c.write("out", rows.view({-1, k, grad.size(1)}).sum(1));
}
struct Unpermuted {
  Tensor rows, valid, probs;  // [tokens, k, hidden], [tokens, k], [tokens, k]
};
Unpermuted unpermuted(const Call& c, const Tensor& permuted) {
  Tensor sorted = c.tensor("sorted").to(at::kLong), probs = c.tensor("probs");
  int64_t k = probs.defined() ? probs.size(1) : 1;
  Tensor valid = sorted < permuted.size(0);
  Tensor rows = permuted.to(at::kFloat).index_select(0, sorted.clamp_max(permuted.size(0) - 1)) * valid.unsqueeze(-1);
  return {rows.view({-1, k, permuted.size(1)}), valid.view({-1, k}), probs.defined() ? probs.to(at::kFloat) : at::ones({sorted.numel(), 1})};
}
void token_unpermute(Call& c) {
  Unpermuted u = unpermuted(c, c.tensor("permuted"));
  c.write("out", (u.rows * u.probs.unsqueeze(-1)).sum(1));
}
void token_unpermute_backward(Call& c) {
  Tensor grad = c.tensor("grad").to(at::kFloat).unsqueeze(1), target = c.tensor("grad_permuted");
  Unpermuted u = unpermuted(c, c.has("permuted") ? c.tensor("permuted") : at::zeros(target.sizes()));
  Tensor each = (grad * u.probs.unsqueeze(-1)).expand(u.rows.sizes()).reshape({-1, target.size(1)});
  Tensor sorted = c.tensor("sorted").to(at::kLong), kept = (sorted < target.size(0)).nonzero().squeeze(-1);
  c.write("grad_permuted", at::zeros(target.sizes(), at::kFloat).index_copy(0, sorted.index_select(0, kept), each.index_select(0, kept)));
  if (c.has("probs") && c.has("grad_probs")) c.write("grad_probs", (grad * u.rows).sum(-1));
}
void compute_expert_tokens(Call& c) {
  Tensor sorted = c.tensor("sorted").to(at::kLong);
  c.write("out", at::searchsorted(sorted, at::arange(c.integer("experts"), at::kLong), false, true));
}

const Family experts({
    {"MoeGatingTopKSoftmax(T x, T? finished, i k, T! y, T! experts, T! rows)", [](Call& c) { gating_softmax(c, false, true); }},
    {"MoeGatingTopKSoftmaxV2(T x, T? finished, i k, i renorm, b want_softmax, T! y, T! experts, T! softmax)",
     [](Call& c) { gating_softmax(c, c.integer("renorm") == 1, false); }},
    {"MoeGatingTopK(T x, T? bias, i k, i k_group, i group_count, i group_select, i renorm, i norm_type, b want_norm, d factor, d eps, "
     "T! y, T! experts, T! norm)", gating_topk},
    {"MoeGatingTopKV2(T x, T? bias, T? input_ids, T? table, i k, i k_group, i group_count, i group_select, i renorm, i norm_type, b want_norm, "
     "d factor, d eps, T! y, T! experts, T! norm)", gating_topk},
    {"MoeInitRouting(T x, T row_idx, T experts, i active_num, T! expanded_x, T! expanded_rows, T! expanded_experts)", init_routing_one},
    {"MoeInitRoutingV2(T x, T experts, i active_num, i capacity, i expert_num, i drop_pad, i count_flag, b before_capacity, "
     "T! expanded_x, T! expanded_rows, T! counts, T! before)", init_routing_two},
    {"MoeInitRoutingV3(T x, T experts, T? scale, T? offset, i active_num, i capacity, i expert_num, i drop_pad, i count_type, b want_counts, "
     "i quant_mode, I range, i row_type, T! expanded_x, T! expanded_rows, T! counts, T! expanded_scale)", init_routing_three},
    {"MoeFinalizeRouting(T rows, T? skip1, T? skip2, T? bias, T? scales, T positions, T? experts, T! out)", finalize_routing},
    {"MoeFinalizeRoutingV2(T rows, T positions, T? skip1, T? skip2, T? bias, T? scales, T? experts, i mode, T! out)", finalize_routing},
    {"MoeTokenPermute(T tokens, T indices, i count, b padded, T! permuted, T! sorted)", token_permute},
    {"MoeTokenPermuteGrad(T grad, T sorted, i k, b padded, T! out)", token_permute_backward},
    {"MoeTokenUnpermute(T permuted, T sorted, T? probs, b padded, I? shape, T! out)", token_unpermute},
    {"MoeTokenUnpermuteGrad(T? permuted, T grad, T sorted, T? probs, b padded, I? shape, T! grad_permuted, T! grad_probs)", token_unpermute_backward},
    {"MoeComputeExpertTokens(T sorted, i experts, T! out)", compute_expert_tokens},
});
}  // namespace
}  // namespace air_sim
