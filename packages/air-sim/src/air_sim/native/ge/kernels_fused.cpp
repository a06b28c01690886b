// Fused operators of NPU model code: norms of sums, rows with a scale of their own, products of turned batches.
#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
struct Normed {
  Tensor y, rstd;  // both in 32 bits
};
// Over as many last axes as gamma has.
Normed normed(const Tensor& x, const Tensor& gamma, double epsilon) {
  Ints axes;
  for (int64_t axis = x.dim() - gamma.dim(); axis < x.dim(); ++axis) axes.push_back(axis);
  const Tensor wide = x.to(at::kFloat);
  const Tensor rstd = (wide * wide).mean(axes, true).add(epsilon).rsqrt();
  return {wide * rstd * gamma.to(at::kFloat), rstd};
}
Tensors add_rms_norm(const Call& c, bool cast) {
  const Tensor x = c.in[0] + c.in[1];
  const Normed n = normed(x, c.in[2], c.real("epsilon", 1e-6));
  const Tensor y = n.y.to(x.scalar_type());
  return cast ? Tensors{y.to(at::kFloat), y, n.rstd, x} : Tensors{y, n.rstd, x};
}

struct Rows {
  Tensor values, scale;
};
// Each row over its largest magnitude by 127, or by 7 for four bits, and that scale.
Rows quantised(const Call& c, const Tensor& wide) {
  const int64_t type = c.integer("dst_type", 2);
  TORCH_CHECK(type == 2 || type == 29, c.op.type, ": air-sim quantises rows to int8 (2) and four bits (29) alone, not to type ", type);
  const int64_t top = type == 2 ? 127 : 7;
  const Tensor scale = wide.abs().amax(-1, true) / top;
  return {(wide / scale.masked_fill(scale == 0, 1)).round().clamp(-top - 1, top).to(at::kChar), scale.squeeze(-1)};
}
// The smooth scales of group i apply to the rows before group_index[i].
Tensors dynamic_quant(const Call& c) {
  Tensor x = c.in[0].to(at::kFloat);
  if (c.given(2)) {
    Tensor rows = x.reshape({-1, x.size(-1)}).clone();
    int64_t start = 0;
    const Ints ends = c.values(2);
    for (size_t group = 0; group < ends.size(); start = ends[group++])
      rows.slice(0, start, ends[group]).mul_(c.in[1][static_cast<int64_t>(group)].to(at::kFloat));
    x = rows.view(x.sizes());
  } else if (c.given(1)) {
    x = x * c.in[1].to(at::kFloat);
  }
  const Rows q = quantised(c, x);
  return {q.values, q.scale};
}
Tensors add_rms_norm_dynamic_quant(const Call& c) {
  const Tensor x = c.in[0] + c.in[1];
  Tensor y = normed(x, c.in[2], c.real("epsilon", 1e-6)).y;
  if (c.given(5)) y = y + c.in[5].to(at::kFloat);
  const Ints wanted = c.ints("output_mask");
  Rows made[2];
  for (size_t i = 0; i < 2; ++i) {
    const bool given = c.given(3 + i);
    const bool yes = wanted.size() == 2 ? wanted[i] != 0 : i == 0 || (c.given(3) && given);
    made[i] = yes ? quantised(c, given ? y * c.in[3 + i].to(at::kFloat) : y)
                  : Rows{at::empty({0}, at::kChar), at::empty({0}, at::kFloat)};
  }
  return {made[0].values, made[1].values, x, made[0].scale, made[1].scale};
}

Tensor turned(const Tensor& t, const Ints& order) { return order.empty() ? t : t.permute(order); }
Tensor transpose_batch_matmul(const Call& c) {
  TORCH_CHECK(!c.given(3), c.op.type, ": air-sim does not implement a scale");
  Tensor y = at::matmul(turned(c.in[0], c.ints("perm_x1")), turned(c.in[1], c.ints("perm_x2")));
  if (c.given(2)) y = y + c.in[2];
  y = turned(y, c.ints("perm_y")).contiguous();
  const int64_t parts = c.integer("batch_split_factor", 1);
  return parts <= 1 ? y : y.reshape({y.size(0), parts, -1}).transpose(0, 1).contiguous();
}
}  // namespace

void add_fused(Table& table) {
  AIR_SIM_GE_OPS(AddRmsNorm, add_rms_norm(c, false));
  AIR_SIM_GE_OPS(AddRmsNormCast, add_rms_norm(c, true));
  AIR_SIM_GE_OPS(DynamicQuant, dynamic_quant(c));
  AIR_SIM_GE_OPS(AddRmsNormDynamicQuant, add_rms_norm_dynamic_quant(c));
  AIR_SIM_GE_OP(TransposeBatchMatMul, transpose_batch_matmul(c));
}
}  // namespace air_sim::graph_engine
