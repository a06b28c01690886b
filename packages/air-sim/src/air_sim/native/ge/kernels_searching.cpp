// Operators that search and count, the products of experts, and systems of equations.
#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
at::ScalarType index_type(const Call& c) { return c.has("dtype") ? type_of_api(c.integer("dtype")) : c.output_type(0, at::kLong); }
Tensor search_sorted(const Call& c) {
  const at::optional<Tensor> sorter = c.optional(2);
  return at::searchsorted(c.in[0], c.in[1], false, c.integer("right") != 0, at::nullopt, sorter).to(index_type(c));
}
// With both bounds 0 the range is that of the data.
Tensor histogram(const Call& c) {
  const Tensor x = at::isFloatingType(c.in[0].scalar_type()) ? c.in[0] : c.in[0].to(at::kDouble);
  return at::histc(x, c.integer("bins", 100), c.real("min"), c.real("max")).to(c.in[0].scalar_type());
}
Tensor bincount(const Call& c) {
  const int64_t size = c.value(1);
  const at::optional<Tensor> weights = c.in[2].numel() ? at::optional<Tensor>(c.in[2]) : at::nullopt;
  return at::bincount(c.in[0].flatten(), weights, size).slice(0, 0, size).to(c.in[2].scalar_type());
}
Tensors unique(const Call& c) {
  auto [values, inverse, counts] = at::_unique2(c.in[0], c.integer("sorted", 1) != 0, true, true);
  return {values, inverse, counts};
}
Tensors unique_consecutive(const Call& c) {
  const int64_t axis = c.integer("axis", 1000);
  auto [values, inverse, counts] = at::unique_consecutive(c.in[0], true, true, axis == 1000 ? at::nullopt : at::optional<int64_t>(axis));
  return {values, inverse, counts};
}
Tensor repeat(const Call& c) {
  const int64_t axis = c.integer("axis", 1000);
  return at::repeat_interleave(c.in[0], c.in[1].flatten(), axis == 1000 ? at::nullopt : at::optional<int64_t>(axis));
}
Tensor triangular_solve(const Call& c) {
  const bool adjoint = c.integer("adjoint") != 0, lower = c.integer("lower", 1) != 0;
  const Tensor matrix = adjoint ? c.in[0].mH() : c.in[0];
  return at::linalg_solve_triangular(matrix, c.in[1], adjoint ? lower : !lower);
}
// One x, one weight and a list of where groups end (type 0) or how large they are (type 1); a bias for each group. Of the
// quantised forms, a weight of eight or four bits that has a scale and an offset for each column of each group.
Tensor grouped_matmul(const Call& c) {
  TORCH_CHECK(c.in.size() >= 3, "it needs x, weight and group_list");
  Tensor list;
  const size_t kBias = 2, kScale = 5, kOffset = 6;
  const auto of_weight = [&](size_t i) { return c.given(i) && c.in.size() > 7 && c.in[i].dim() == 2 && c.in[i].numel() > 0; };
  for (size_t i = 2; i < c.in.size(); ++i) {
    if (!c.given(i) || c.in[i].numel() == 0) continue;  // a list that is not given holds a tensor without elements
    if ((i == kBias || i == kScale || i == kOffset) && of_weight(i)) continue;
    TORCH_CHECK(!list.defined() && c.in[i].scalar_type() == at::kLong && c.in[i].dim() == 1,
                "several weights, and scales of results and rows, are not implemented by air-sim");
    list = c.in[i];
  }
  const int64_t kind = c.integer("group_type", -1);
  TORCH_CHECK(list.defined() && (kind == 0 || kind == 2), "group_type ", kind, " is not implemented by air-sim");
  TORCH_CHECK(c.integer("act_type") == 0, "an activation is not implemented by air-sim");
  TORCH_CHECK((kind == 2) == (c.integer("transpose_x") != 0), "x is transposed if, and only if, its rows are summed");
  const bool wide = c.in[0].scalar_type() == at::kDouble;
  const Tensor x = c.in[0].to(wide ? at::kDouble : at::kFloat);
  Tensor weight = c.in[1].to(x.scalar_type());
  if (c.integer("transpose_weight")) weight = weight.transpose(-1, -2);
  if (of_weight(kOffset)) weight = weight + c.in[kOffset].to(x.scalar_type()).unsqueeze(1);
  if (of_weight(kScale)) weight = weight * c.in[kScale].to(x.scalar_type()).unsqueeze(1);
  const Tensor counted = c.integer("group_list_type") == 1 ? list.cumsum(0) : list;
  const Tensor ends = counted.contiguous();
  const int64_t groups = ends.numel();
  Tensor result = kind == 0 ? at::zeros({x.size(0), weight.size(2)}, x.options())
                            : at::zeros({groups, x.size(1), weight.size(1)}, x.options());
  for (int64_t group = 0, from = 0; group < groups; ++group) {
    const int64_t to = c.dry ? std::min(from, x.size(0)) : ends.data_ptr<int64_t>()[group];
    TORCH_CHECK(from <= to && to <= x.size(0), "group ", group, " ends at ", to, " of ", x.size(0), " rows");
    const Tensor rows = x.slice(0, from, to);
    if (kind == 0) {
      const Tensor product = at::matmul(rows, weight[group]);
      result.slice(0, from, to).copy_(of_weight(kBias) ? product + c.in[kBias][group].to(x.scalar_type()) : product);
    } else
      result[group].copy_(at::matmul(rows.t(), weight.slice(0, from, to)));
    from = to;
  }
  return result.to(c.in[0].scalar_type());
}
}  // namespace

void add_searching(Table& table) {
  AIR_SIM_GE_OP(SearchSorted, search_sorted(c));
  AIR_SIM_GE_OP(Histogram, histogram(c));
  AIR_SIM_GE_OP(Bincount, bincount(c));
  AIR_SIM_GE_OPS(UniqueWithCountsAndSorting, unique(c));
  AIR_SIM_GE_OPS(UniqueConsecutive, unique_consecutive(c));
  AIR_SIM_GE_OP(RepeatInterleave, repeat(c));
  AIR_SIM_GE_OP(Cumprod, x[0].cumprod(c.value(1), x[0].scalar_type()));
  AIR_SIM_GE_OP(MatrixTriangularSolve, triangular_solve(c));
  AIR_SIM_GE_OP(GroupedMatmul, grouped_matmul(c));
}
}  // namespace air_sim::graph_engine
