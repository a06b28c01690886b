// Element-wise operators, products and reductions.
#include <algorithm>
#include <cmath>

#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
Tensor product(const Call& c, const char* transpose_a, const char* transpose_b) {
  const Tensor a = c.integer(transpose_a) ? c.in[0].transpose(-1, -2) : c.in[0];
  const Tensor b = c.integer(transpose_b) ? c.in[1].transpose(-1, -2) : c.in[1];
  const Tensor result = at::matmul(a, b);
  return c.given(2) ? result + c.in[2] : result;
}
// scale * x + shift; without either, x itself: an infinity times one has a part that is no number, if it is complex.
bool is_plain(const Call& c) { return c.real("scale", 1) == 1 && c.real("shift", 0) == 0; }
Tensor shifted(const Call& c) { return is_plain(c) ? c.in[0] : c.in[0] * c.real("scale", 1) + c.real("shift", 0); }
// base^(scale * x + shift); a base of -1 stands for e.
Tensor exponential(const Call& c) {
  const Tensor t = shifted(c);
  const double base = c.real("base", -1);
  return base < 0 ? t.exp() : at::pow(base, t).to(t.scalar_type());
}
Tensor logarithm(const Call& c) {
  const bool plain = is_plain(c);
  if (plain && c.real("base", -1) == 2) return c.in[0].log2();
  if (plain && c.real("base", -1) == 10) return c.in[0].log10();
  const Tensor t = shifted(c).log();
  const double base = c.real("base", -1);
  return base < 0 ? t : t / std::log(base);
}
// No axes: every axis, unless the operator says that nothing is to be done.
Ints axes(const Call& c) {
  Ints list = c.values(1);
  if (list.empty())
    for (int64_t i = 0; i < c.in[0].dim(); ++i) list.push_back(i);
  return list;
}
bool reduces_nothing(const Call& c) { return c.values(1).empty() && c.integer("noop_with_empty_axes", 1) != 0; }
bool keep(const Call& c) { return c.integer("keep_dims") != 0; }
Tensor mean(const Call& c) { return reduces_nothing(c) ? c.in[0].clone() : c.in[0].mean(axes(c), keep(c)); }
Tensor mean_with_cast(const Call& c) {
  const Tensor t = c.in[0].to(c.output_type(0, c.in[0].scalar_type()));
  return reduces_nothing(c) ? t.clone() : t.mean(axes(c), keep(c));
}
Tensor over_axes(const Call& c, Tensor (*reduce)(const Tensor&, int64_t, bool)) {
  Tensor t = c.in[0];
  Ints list = axes(c);
  for (int64_t& axis : list) axis = axis < 0 ? axis + t.dim() : axis;
  std::sort(list.rbegin(), list.rend());
  for (const int64_t axis : list) t = reduce(t, axis, keep(c));
  return t;
}
Tensor any_of(const Tensor& t, int64_t axis, bool kept) { return t.any(axis, kept); }
Tensor all_of(const Tensor& t, int64_t axis, bool kept) { return t.all(axis, kept); }
Tensor cast(const Call& c) {
  return c.in[0].to(c.has("dst_type") ? type_of_api(c.integer("dst_type")) : c.output_type(0, c.in[0].scalar_type()),
                    /*non_blocking=*/false, /*copy=*/true);
}
Tensor clip(const Call& c) { return at::minimum(at::maximum(c.in[0], c.in[1]), c.in[2]); }
Tensor cumulative(const Call& c) {
  const int64_t axis = c.value(1);
  Tensor t = c.integer("reverse") ? c.in[0].flip({axis}) : c.in[0];
  Tensor sum = t.cumsum(axis, t.scalar_type());
  if (c.integer("exclusive")) sum = sum - t;
  return c.integer("reverse") ? sum.flip({axis}) : sum;
}
Tensors extremes(const std::tuple<Tensor, Tensor>& found) {
  return {std::get<0>(found), std::get<1>(found).to(at::kInt)};
}
// A device divides integers by zero to a number without meaning; ATen on a CPU raises, in dry runs over zeros as well.
Tensor divisor(const Tensor& y) {
  return at::isIntegralType(y.scalar_type(), false) ? at::where(y == 0, at::ones_like(y), y) : y;
}
// A norm in two parts, the sum of powers and its root.  torch_npu gives an infinite order as the end of the integers.
bool is_infinite(double p) { return std::abs(p) > 2147483000.0; }
Tensor lp_norm_reduced(const Call& c) {
  const double p = c.real("p", 2);
  const Tensor x = c.in[0].abs();
  const Ints over = c.ints("axes");
  const bool kept = c.integer("keepdim") != 0;
  if (is_infinite(p)) return p > 0 ? at::amax(x, over, kept) : at::amin(x, over, kept);
  return (p == 0 ? (x != 0).to(x.scalar_type()) : x.pow(p)).sum(over, kept);
}
Tensor lp_norm_updated(const Call& c) {
  const double p = c.real("p", 2);
  return is_infinite(p) || p == 0 ? c.in[0].clone() : c.in[0].pow(1 / p);
}
}  // namespace

void add_math(Table& table) {
  AIR_SIM_GE_OP(LpNormReduceV2, lp_norm_reduced(c));
  AIR_SIM_GE_OP(LpNormUpdateV2, lp_norm_updated(c));
  AIR_SIM_GE_OP(Add, x[0] + x[1]);
  AIR_SIM_GE_OP(AddV2, x[0] + x[1]);
  AIR_SIM_GE_OP(Sub, x[0] - x[1]);
  AIR_SIM_GE_OP(Mul, x[0] * x[1]);
  AIR_SIM_GE_OP(Muls, x[0] * c.real("value"));
  AIR_SIM_GE_OP(Adds, x[0] + c.real("value"));
  AIR_SIM_GE_OP(RealDiv, x[0] / x[1]);
  AIR_SIM_GE_OP(Div, at::isIntegralType(x[0].scalar_type(), false) ? at::div(x[0], divisor(x[1]), "trunc") : x[0] / x[1]);
  AIR_SIM_GE_OP(FloorDiv, at::floor_divide(x[0], divisor(x[1])));
  AIR_SIM_GE_OP(FloorMod, at::remainder(x[0], divisor(x[1])));
  AIR_SIM_GE_OP(Mod, at::fmod(x[0], divisor(x[1])));
  AIR_SIM_GE_OP(Pow, at::pow(x[0], x[1]));
  AIR_SIM_GE_OP(Maximum, at::maximum(x[0], x[1]));
  AIR_SIM_GE_OP(Minimum, at::minimum(x[0], x[1]));
  AIR_SIM_GE_OP(Sxpy, c.given(2) ? x[1] - x[2] * x[0] : x[1] - x[0]);
  AIR_SIM_GE_OP(Lerp, at::lerp(x[0], x[1], x[2]));
  AIR_SIM_GE_OP(Atan2, at::atan2(x[0], x[1]));
  AIR_SIM_GE_OP(ClipByValue, clip(c));
  AIR_SIM_GE_OP(ClipByValueV2, clip(c));
  AIR_SIM_GE_OP(Neg, -x[0]);
  AIR_SIM_GE_OP(Abs, x[0].abs());
  AIR_SIM_GE_OP(Sign, x[0].sign());
  AIR_SIM_GE_OP(Square, x[0] * x[0]);
  AIR_SIM_GE_OP(Sqrt, x[0].sqrt());
  AIR_SIM_GE_OP(Rsqrt, x[0].rsqrt());
  AIR_SIM_GE_OP(Reciprocal, x[0].reciprocal());
  AIR_SIM_GE_OP(Exp, exponential(c));
  AIR_SIM_GE_OP(Expm1, x[0].expm1());
  AIR_SIM_GE_OP(Log, logarithm(c));
  AIR_SIM_GE_OP(Log1p, x[0].log1p());
  AIR_SIM_GE_OP(Sin, x[0].sin());
  AIR_SIM_GE_OP(Cos, x[0].cos());
  AIR_SIM_GE_OP(Tan, x[0].tan());
  AIR_SIM_GE_OP(Asin, x[0].asin());
  AIR_SIM_GE_OP(Acos, x[0].acos());
  AIR_SIM_GE_OP(Atan, x[0].atan());
  AIR_SIM_GE_OP(Sinh, x[0].sinh());
  AIR_SIM_GE_OP(Cosh, x[0].cosh());
  AIR_SIM_GE_OP(Tanh, x[0].tanh());
  AIR_SIM_GE_OP(Erf, x[0].erf());
  AIR_SIM_GE_OP(Erfc, x[0].erfc());
  AIR_SIM_GE_OP(Ceil, x[0].ceil());
  AIR_SIM_GE_OP(Floor, x[0].floor());
  AIR_SIM_GE_OP(Round, x[0].round());
  AIR_SIM_GE_OP(Rint, x[0].round());
  AIR_SIM_GE_OP(Trunc, x[0].trunc());
  AIR_SIM_GE_OP(IsInf, x[0].isinf());
  AIR_SIM_GE_OP(IsNan, x[0].isnan());
  AIR_SIM_GE_OP(IsFinite, x[0].isfinite());
  AIR_SIM_GE_OP(Relu, x[0].relu());
  AIR_SIM_GE_OP(Relu6, x[0].clamp(0, 6));
  AIR_SIM_GE_OP(LeakyRelu, at::leaky_relu(x[0], c.real("negative_slope")));
  AIR_SIM_GE_OP(Sigmoid, x[0].sigmoid());
  AIR_SIM_GE_OP(Softplus, at::softplus(x[0]));
  AIR_SIM_GE_OP(Gelu, at::gelu(x[0], "tanh"));
  AIR_SIM_GE_OP(GeluV2, at::gelu(x[0], c.text("approximate", "none")));
  AIR_SIM_GE_OP(Swish, c.real("scale", 1) == 1 ? at::silu(x[0]) : x[0] * (x[0] * c.real("scale", 1)).sigmoid());
  AIR_SIM_GE_OP(Equal, x[0].eq(x[1]));
  AIR_SIM_GE_OP(NotEqual, x[0].ne(x[1]));
  AIR_SIM_GE_OP(Greater, x[0].gt(x[1]));
  AIR_SIM_GE_OP(GreaterEqual, x[0].ge(x[1]));
  AIR_SIM_GE_OP(Less, x[0].lt(x[1]));
  AIR_SIM_GE_OP(LessEqual, x[0].le(x[1]));
  AIR_SIM_GE_OP(LogicalAnd, x[0].logical_and(x[1]));
  AIR_SIM_GE_OP(LogicalOr, x[0].logical_or(x[1]));
  AIR_SIM_GE_OP(LogicalXor, x[0].logical_xor(x[1]));
  AIR_SIM_GE_OP(LogicalNot, x[0].logical_not());
  AIR_SIM_GE_OP(BitwiseAnd, x[0].bitwise_and(x[1]));
  AIR_SIM_GE_OP(BitwiseOr, x[0].bitwise_or(x[1]));
  AIR_SIM_GE_OP(BitwiseXor, x[0].bitwise_xor(x[1]));
  AIR_SIM_GE_OP(Invert, x[0].bitwise_not());
  AIR_SIM_GE_OP(SelectV2, at::where(x[0], x[1], x[2]));
  AIR_SIM_GE_OP(Select, at::where(x[0], x[1], x[2]));
  AIR_SIM_GE_OP(MaskedFill, at::where(x[1], x[2].to(x[0].scalar_type()), x[0]));
  AIR_SIM_GE_OP(Cast, cast(c));
  AIR_SIM_GE_OP(MatMul, product(c, "transpose_x1", "transpose_x2"));
  AIR_SIM_GE_OP(MatMulV2, product(c, "transpose_x1", "transpose_x2"));
  AIR_SIM_GE_OP(MatMulV3, product(c, "transpose_x1", "transpose_x2"));
  AIR_SIM_GE_OP(BatchMatMul, product(c, "adj_x1", "adj_x2"));
  AIR_SIM_GE_OP(BatchMatMulV2, product(c, "adj_x1", "adj_x2"));
  AIR_SIM_GE_OP(BatchMatMulV3, product(c, "adj_x1", "adj_x2"));
  AIR_SIM_GE_OP(ReduceSum, x[0].sum(axes(c), keep(c), x[0].scalar_type()));
  AIR_SIM_GE_OP(ReduceMean, mean(c));
  AIR_SIM_GE_OP(ReduceMeanWithCast, mean_with_cast(c));
  AIR_SIM_GE_OP(ReduceMax, x[0].amax(axes(c), keep(c)));
  AIR_SIM_GE_OP(ReduceMin, x[0].amin(axes(c), keep(c)));
  AIR_SIM_GE_OP(ReduceProd, over_axes(c, [](const Tensor& t, int64_t axis, bool kept) { return t.prod(axis, kept, t.scalar_type()); }));
  AIR_SIM_GE_OP(ReduceAny, over_axes(c, any_of));
  AIR_SIM_GE_OP(ReduceAll, over_axes(c, all_of));
  AIR_SIM_GE_OP(ReduceLogSumExp, x[0].logsumexp(axes(c), keep(c)));
  AIR_SIM_GE_OP(Cumsum, cumulative(c));
  AIR_SIM_GE_OPS(Cummax, extremes(x[0].cummax(c.integer("dim"))));
  AIR_SIM_GE_OPS(Cummin, extremes(x[0].cummin(c.integer("axis"))));
}
}  // namespace air_sim::graph_engine
