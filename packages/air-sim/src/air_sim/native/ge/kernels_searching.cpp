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
}
}  // namespace air_sim::graph_engine
