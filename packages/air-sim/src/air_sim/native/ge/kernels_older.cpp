// Operator types that torch_npu reaches by the older interface alone, and graphs seldom.
#include <air_sim/half.h>

#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
// A shape change before or after a permutation.
Tensor confused_transpose(const Call& c) {
  const Tensor& x = c.in[0];
  const Ints perm = c.ints("perm"), shape = c.ints("shape");
  return c.integer("transpose_first") ? x.permute(perm).reshape(shape) : x.reshape(shape).permute(perm).contiguous();
}

constexpr double kHidden = -10000;
Tensor masked_scores(const Call& c) {
  TORCH_CHECK(!c.integer("fixed_triu_mask"), "fixed_triu_mask is not implemented by air-sim");
  const Tensor scores = c.in[0].to(at::kFloat) * c.real("scale", 1);
  return c.given(1) ? scores.masked_fill(c.in[1].to(at::kBool), kHidden) : scores;
}
Tensor masked_softmax_grad(const Call& c) {
  const auto& x = c.in;
  TORCH_CHECK(!c.integer("fixed_triu_mask"), "fixed_triu_mask is not implemented by air-sim");
  const Tensor grad = at::_softmax_backward_data(x[0].to(at::kFloat), x[1].to(at::kFloat), -1, at::kFloat) * c.real("scale", 1);
  return c.given(2) ? grad.masked_fill(x[2].to(at::kBool), 0) : grad;
}

// Of the first points: the operands are spread over every pair of points, and the result sums over the second ones.  The order
// infinity is told as -1.
Tensor cdist_grad(const Call& c) {
  const Tensor grad = widened(c.in[0]), apart = widened(c.in[1]) - widened(c.in[2]), distance = widened(c.in[3]);
  const double p = c.real("p", 2);
  Tensor slope = apart.sign();
  if (p < 0) slope = slope * (apart.abs() == distance);
  else if (p != 1) slope = (slope * (apart.abs() / distance).pow(p - 1)).masked_fill(distance == 0, 0);
  return (grad * slope).sum(-2).to(c.in[0].scalar_type());
}

Tensor slice(const Call& c) {
  const Ints from = c.values(1), sizes = c.values(2);
  Tensor t = c.in[0];
  for (size_t d = 0; d < from.size(); ++d) t = t.narrow(d, from[d], sizes[d] < 0 ? t.size(d) - from[d] : sizes[d]);
  return t.contiguous();
}
Tensor one_hot(const Call& c) {
  TORCH_CHECK(c.integer("axis", -1) == -1, "one_hot along another axis than a last one is not implemented by air-sim");
  const Tensor chosen = c.in[0].unsqueeze(-1).to(at::kLong) == at::arange(c.integer("depth"), at::kLong);
  return at::where(chosen, c.in[1], c.in[2]);
}
Tensors cross_entropy_with_logits(const Call& c) {
  const Tensor logs = c.in[0].to(at::kFloat).log_softmax(1), labels = c.in[1].to(at::kFloat);
  return {-(labels * logs).sum(1), logs.exp() - labels};
}
}  // namespace

void add_older(Table& table) {
  AIR_SIM_GE_OP(CdistGrad, cdist_grad(c));
  AIR_SIM_GE_OP(ConfusionTransposeD, confused_transpose(c));
  AIR_SIM_GE_OP(ScaledMaskedSoftmax, masked_scores(c).softmax(-1));
  AIR_SIM_GE_OP(ScaledMaskedSoftmaxGrad, masked_softmax_grad(c));
  AIR_SIM_GE_OP(Slice, slice(c));
  AIR_SIM_GE_OP(SortV2, std::get<0>(x[0].sort(c.integer("axis", -1), c.integer("descending") != 0)));
  AIR_SIM_GE_OP(OneHotD, one_hot(c));
  AIR_SIM_GE_OPS(SoftmaxCrossEntropyWithLogits, cross_entropy_with_logits(c));
}
}  // namespace air_sim::graph_engine
