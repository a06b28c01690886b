// Products that are added to, rounding to int8 with and without a norm, and the choice of groups of experts.
#include "operation.h"

namespace air_sim {
AtbKernel kernel_of(const atb::infer::LinearParam& param) {
  TORCH_CHECK(param.accumulates && !param.has_bias, "LinearParam: air-sim has the product that is added to its result only");
  return [left = param.turn_left, right = param.turn_right](const Tensors& in, const Tensors& out) {
    const Tensor a = in[0].to(at::kFloat), b = in[1].to(at::kFloat);
    out[0].copy_(in[2].to(at::kFloat) + at::matmul(left ? a.t() : a, right ? b.t() : b));
  };
}

AtbKernel kernel_of(const atb::infer::ElewiseParam& param) {
  TORCH_CHECK(param.kind == atb::infer::ElewiseParam::kQuantPerChannel, "ElewiseParam: air-sim does not have type ", param.kind);
  return [](const Tensors& in, const Tensors& out) {
    Tensor rounded = (in[0].to(at::kFloat) / in[1].to(at::kFloat)).round();
    if (in[2].defined() && in[2].numel() > 0) rounded = rounded + in[2].to(at::kFloat);
    out[0].copy_(rounded.clamp(-128, 127));
  };
}

// Inputs: x, weight, bias, scale, offset.
AtbKernel kernel_of(const atb::infer::RmsNormParam& param) {
  using Param = atb::infer::RmsNormParam;
  TORCH_CHECK(param.kind == Param::kNorm && param.quant == Param::kInt8, "RmsNormParam: air-sim has the norm that is rounded to int8 only");
  return [epsilon = param.epsilon](const Tensors& in, const Tensors& out) {
    const Tensor x = in[0].to(at::kFloat), scale = in[3].to(at::kFloat), offset = in[4].to(at::kFloat);
    const Tensor normed = x * (x.square().mean(-1, true) + epsilon).rsqrt();
    const Tensor shifted = normed * in[1].to(at::kFloat) + in[2].to(at::kFloat);
    out[0].copy_((shifted / scale + offset).round().clamp(-128, 127));
  };
}

// All but the k best groups of a row become 0.
AtbKernel kernel_of(const atb::infer::GroupTopkParam& param) {
  return [param](const Tensors& in, const Tensors& out) {
    const Tensor groups = in[0].to(at::kFloat).reshape({in[0].size(0), param.groups, -1});
    const Tensor worth = param.sums ? std::get<0>(groups.topk(param.n, -1)).sum(-1) : groups.amax(-1);
    const Tensor worst = worth.argsort(/*stable=*/true, -1, /*descending=*/true).narrow(1, param.k, param.groups - param.k);
    const Tensor gone = at::zeros(worth.sizes(), at::kBool).scatter(1, worst, true).unsqueeze(-1);
    out[0].copy_(groups.masked_fill(gone, 0).reshape(out[0].sizes()));
  };
}
}  // namespace air_sim
