// Operators that read or write by index, and those that order values.
#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
// Negative indices count from the end where the attribute says so; elsewhere they are outside, as any other is.
Tensor gathered_places(const Call& c, int64_t size) {
  const Tensor index = c.in[1].to(at::kLong);
  if (c.integer("negative_index_support", 0) == 0) return index;
  return at::where(index.lt(0), index + size, index);
}

Tensor gather(const Call& c, int64_t axis) {
  const Tensor& x = c.in[0];
  const int64_t batch = c.integer("batch_dims");
  if (axis < 0) axis += x.dim();
  const Tensor index = gathered_places(c, x.size(axis));
  if (batch == 0) {
    Ints shape = x.sizes().vec();
    shape.erase(shape.begin() + axis);
    const Ints inner = index.sizes().vec();
    shape.insert(shape.begin() + axis, inner.begin(), inner.end());
    return x.index_select(axis, index.flatten()).reshape(shape);
  }
  Tensors parts;
  for (int64_t b = 0; b < x.size(0); ++b) parts.push_back(x[b].index_select(axis - 1, index[b].flatten()));
  return at::stack(parts);
}
// Which axes have an index: one 0 or 1 per axis.
Tensor index_by_tensor(const Call& c) {
  const Ints mask = c.ints("indices_mask");
  c10::List<at::optional<Tensor>> indices;
  size_t next = 1;
  if (mask.empty())
    for (; next < c.in.size(); ++next) indices.push_back(c.in[next]);
  for (const int64_t used : mask) {
    if (used)
      indices.push_back(c.in.at(next++));
    else
      indices.push_back(at::nullopt);
  }
  return at::index(c.in[0], indices);
}
// indexed_sizes has a one for every axis with an index; the indices come last.
Tensor index_put(const Call& c) {
  c10::List<at::optional<Tensor>> indices;
  size_t next = 4;
  for (const int64_t used : c.values(2)) {
    if (used)
      indices.push_back(c.in.at(next++).to(at::kLong));
    else
      indices.push_back(at::nullopt);
  }
  return Tensor(c.in[0]).index_put_(indices, c.in[1], c.integer("accumulate") != 0);
}
Tensor scatter_elements(const Call& c) {
  const std::string how = c.text("reduction", "none");
  const int64_t axis = c.integer("axis");
  const Tensor index = c.in[1].to(at::kLong);
  if (how == "none") return c.in[0].scatter(axis, index, c.in[2]);
  static const std::map<std::string, const char*> kNames = {{"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
  const auto name = kNames.find(how);
  TORCH_CHECK(name != kNames.end(), "reduction ", how, " is not implemented by air-sim");
  return c.in[0].scatter_reduce(axis, index, c.in[2], name->second);
}
c10::List<at::optional<Tensor>> columns(const Tensor& index) {
  c10::List<at::optional<Tensor>> list;
  for (const Tensor& column : index.to(at::kLong).unbind(-1)) list.push_back(column);
  return list;
}
Tensor scatter_nd(const Call& c, Tensor into, bool add) { return into.index_put_(columns(c.in[1]), c.in[2], add); }
// Rows of a cache: for every batch b, updates go to position indices[b] along the axis.
Tensor scatter_rows(const Call& c) {
  Tensor var = c.in[0];
  const int64_t axis = c.integer("axis") < 0 ? c.integer("axis") + var.dim() : c.integer("axis");
  const Ints at = c.values(1);
  for (size_t b = 0; b < at.size(); ++b)
    var[static_cast<int64_t>(b)].narrow(axis - 1, at[b], c.in[2].size(axis)).copy_(c.in[2][static_cast<int64_t>(b)]);
  return var;
}
Tensors sort(const Call& c) {
  auto [values, indices] = at::sort(c.in[0], c.integer("stable") != 0, c.integer("axis", -1), c.integer("descending") != 0);
  return {values, indices.to(c.output_type(1, at::kInt))};
}
Tensors top_k(const Call& c) {
  auto [values, indices] =
      at::topk(c.in[0], c.value(1), c.integer("dim", -1), c.integer("largest", 1) != 0, c.integer("sorted", 1) != 0);
  return {values, indices.to(c.output_type(1, at::kInt))};
}
Tensors arg_with_value(const Call& c, bool largest) {
  const int64_t axis = c.integer("dimension");
  const bool keep = c.integer("keep_dims") != 0;
  auto [values, indices] = largest ? at::max(c.in[0], axis, keep) : at::min(c.in[0], axis, keep);
  return {indices.to(c.output_type(0, at::kInt)), values};
}
Tensor arg_extreme(const Call& c, bool largest) {
  const int64_t axis = c.value(1);
  const Tensor index = largest ? at::argmax(c.in[0], axis) : at::argmin(c.in[0], axis);
  return index.to(c.has("dtype") ? type_of_api(c.integer("dtype")) : at::kLong);
}
Tensor index_add(const Call& c) {
  const Tensor updates = c.given(3) ? c.in[2] * c.in[3] : c.in[2];
  return Tensor(c.in[0]).index_add_(c.integer("axis"), c.in[1].to(at::kLong), updates.to(c.in[0].scalar_type()));
}
Tensor assign(const Call& c) { return Tensor(c.in[0]).copy_(c.in[1]); }
}  // namespace

void add_indexing(Table& table) {
  AIR_SIM_GE_OP(Gather, gather(c, c.integer("batch_dims")));
  AIR_SIM_GE_OP(GatherV2, gather(c, c.value(2)));
  AIR_SIM_GE_OP(GatherElements, at::gather(x[0], c.integer("dim"), x[1].to(at::kLong)));
  AIR_SIM_GE_OP(GatherNd, at::index(x[0], columns(x[1])));
  AIR_SIM_GE_OP(EmbeddingLookup, at::embedding(x[0], x[1]));
  AIR_SIM_GE_OP(EmbeddingDenseGrad, at::embedding_dense_backward(x[0], x[1].to(at::kLong), c.integer("num_weights"),
                                                                 c.integer("padding_idx", -1), c.integer("scale_grad_by_freq") != 0));
  AIR_SIM_GE_OP(IndexByTensor, index_by_tensor(c));
  AIR_SIM_GE_OP(IndexPutV2, index_put(c));
  AIR_SIM_GE_OP(ScatterElements, scatter_elements(c));
  AIR_SIM_GE_OP(ScatterNdUpdate, scatter_nd(c, x[0], false));
  AIR_SIM_GE_OP(TensorScatterUpdate, scatter_nd(c, x[0].clone(), false));
  AIR_SIM_GE_OP(TensorScatterAdd, scatter_nd(c, x[0].clone(), true));
  AIR_SIM_GE_OP(Scatter, scatter_rows(c));
  AIR_SIM_GE_OP(Assign, assign(c));
  AIR_SIM_GE_OP(InplaceIndexAdd, index_add(c));
  AIR_SIM_GE_OP(ArgMaxV2, arg_extreme(c, true));
  AIR_SIM_GE_OP(ArgMin, arg_extreme(c, false));
  AIR_SIM_GE_OPS(ArgMaxWithValue, arg_with_value(c, true));
  AIR_SIM_GE_OPS(ArgMinWithValue, arg_with_value(c, false));
  AIR_SIM_GE_OPS(Sort, sort(c));
  AIR_SIM_GE_OPS(TopKV2, top_k(c));
  AIR_SIM_GE_OP(NonZero, x[0].nonzero());
  AIR_SIM_GE_OP(MaskedSelect, x[0].masked_select(x[1]));
  AIR_SIM_GE_OP(OneHot, at::one_hot(x[0].to(at::kLong), c.value(1)).to(x[2].scalar_type()));
}
}  // namespace air_sim::graph_engine
