// Functions of elements beyond arithmetic: activations and their derivatives, complex numbers, shifts.
#include "kernels.h"

#include <air_sim/four_bits.h>

namespace air_sim::graph_engine {
namespace {
// The factor of a fused operator is a tensor of one element.
at::Scalar factor(const Tensor& t) { return t.flatten()[0].item(); }
Tensor bitcast(const Call& c) {
  const Tensor& x = c.in[0];
  const at::ScalarType type = c.output_type(0, x.scalar_type());
  if (c.gives_four_bits(0)) return x.scalar_type() == at::kInt ? opened(x) : x;
  if (x.scalar_type() == at::kChar && type == at::kInt && x.dim() > 0 && x.size(-1) == 8) return closed(x);
  return x.contiguous().view(type);
}
Tensor nan_to_num(const Call& c) { return at::nan_to_num(c.in[0], c.real("nan"), c.real("posinf"), c.real("neginf")); }
Tensor norm(const Call& c) {
  const Ints axes = c.ints("axes");
  return at::linalg_vector_norm(c.in[0], c.real("p", 2), axes.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(axes),
                                c.integer("keepdim") != 0);
}
// One half times gelu of the other, and that gelu.
Tensors geglu(const Call& c) {
  const auto parts = c.in[0].to(at::kFloat).chunk(2, c.integer("dim", -1));
  const size_t gate = c.integer("activate_left") ? 0 : 1;
  const Tensor gelu = at::gelu(parts[gate], c.integer("approximate", 1) == 1 ? "tanh" : "none");
  return {(parts[1 - gate] * gelu).to(c.in[0].scalar_type()), gelu.to(c.in[0].scalar_type())};
}
Tensor swiglu(const Call& c) {
  const auto parts = c.in[0].to(at::kFloat).chunk(2, c.integer("dim", -1));
  return (at::silu(parts[0]) * parts[1]).to(c.in[0].scalar_type());
}
Tensor gelu_grad(const Call& c) { return at::gelu_backward(c.in[0], c.in[1], c.text("approximate", "none")); }
Tensor threshold(const Call& c) {
  const Tensor other = c.given(2) ? c.in[2] : at::zeros_like(c.in[1]);
  return at::where(c.in[0].le(c.in[1]), other, c.in[0]);
}
Tensor elu(const Call& c) { return at::elu(c.in[0], c.real("alpha", 1), c.real("scale", 1), c.real("input_scale", 1)); }
Tensor hard_sigmoid(const Call& c) {
  return (c.in[0] * c.real("alpha", 0.16666666) + c.real("beta", 0.5)).clamp(0, 1);
}
}  // namespace

void add_functions(Table& table) {
  AIR_SIM_GE_OP(Axpy, at::add(x[0], x[1], c.real("alpha", 1)));
  AIR_SIM_GE_OP(AxpyV2, at::add(x[0], x[1], factor(x[2])));
  AIR_SIM_GE_OP(Addcmul, at::addcmul(x[0], x[1], x[2], factor(x[3])));
  AIR_SIM_GE_OP(Addcdiv, at::addcdiv(x[0], x[1], x[2], factor(x[3])));
  AIR_SIM_GE_OP(SquaredDifference, at::square(x[0] - x[1]));
  AIR_SIM_GE_OP(TruncateDiv, at::div(x[0], x[1], "trunc"));
  AIR_SIM_GE_OP(TruncateMod, at::fmod(x[0], x[1]));
  AIR_SIM_GE_OP(Xlogy, at::xlogy(x[0], x[1]));
  AIR_SIM_GE_OP(Gcd, at::gcd(x[0], x[1]));
  AIR_SIM_GE_OP(NextAfter, at::nextafter(x[0], x[1]));
  AIR_SIM_GE_OP(Igamma, at::special_gammainc(x[0], x[1]));
  AIR_SIM_GE_OP(Igammac, at::special_gammaincc(x[0], x[1]));
  AIR_SIM_GE_OP(Zeta, at::special_zeta(x[0], x[1]));
  AIR_SIM_GE_OP(Acosh, x[0].acosh());
  AIR_SIM_GE_OP(Asinh, x[0].asinh());
  AIR_SIM_GE_OP(Atanh, x[0].atanh());
  AIR_SIM_GE_OP(Erfinv, x[0].erfinv());
  AIR_SIM_GE_OP(BesselI0e, at::special_i0e(x[0]));
  AIR_SIM_GE_OP(Ndtri, at::special_ndtri(x[0]));
  AIR_SIM_GE_OP(NanToNum, nan_to_num(c));
  AIR_SIM_GE_OP(LpNormV2, norm(c));
  AIR_SIM_GE_OP(Bitcast, bitcast(c));
  AIR_SIM_GE_OP(LeftShift, at::bitwise_left_shift(x[0], x[1]));
  AIR_SIM_GE_OP(RightShift, at::bitwise_right_shift(x[0], x[1]));
  AIR_SIM_GE_OP(Complex, at::complex(x[0], x[1]));
  AIR_SIM_GE_OP(ComplexAbs, x[0].abs());
  AIR_SIM_GE_OP(Conj, at::resolve_conj(x[0].conj()).clone());
  AIR_SIM_GE_OP(Real, at::real(x[0]).contiguous());
  AIR_SIM_GE_OP(Imag, at::imag(x[0]).contiguous());
  AIR_SIM_GE_OP(Angle, x[0].angle());
  AIR_SIM_GE_OP(Elu, elu(c));
  AIR_SIM_GE_OP(Celu, at::celu(x[0], c.real("alpha1", 1)));
  AIR_SIM_GE_OP(Selu, at::selu(x[0]));
  AIR_SIM_GE_OP(GLU, at::glu(x[0], c.integer("dim", -1)));
  AIR_SIM_GE_OP(HardShrink, at::hardshrink(x[0], c.real("lambd", 0.5)));
  AIR_SIM_GE_OP(SoftShrink, at::softshrink(x[0], c.real("lambd", 0.5)));
  AIR_SIM_GE_OP(HardSigmoid, hard_sigmoid(c));
  AIR_SIM_GE_OP(HardSwish, at::hardswish(x[0]));
  AIR_SIM_GE_OP(LogSigmoid, at::log_sigmoid(x[0]));
  AIR_SIM_GE_OP(Mish, at::mish(x[0]));
  AIR_SIM_GE_OP(FastGelu, x[0] * (x[0] * 1.702).sigmoid());
  AIR_SIM_GE_OP(SoftplusV2, at::softplus(x[0], c.real("beta", 1), c.real("threshold", 20)));
  AIR_SIM_GE_OP(Softsign, x[0] / (x[0].abs() + 1));
  AIR_SIM_GE_OP(ThresholdV2, threshold(c));
  AIR_SIM_GE_OP(SigmoidGrad, at::sigmoid_backward(x[1], x[0]));
  AIR_SIM_GE_OP(TanhGrad, at::tanh_backward(x[1], x[0]));
  AIR_SIM_GE_OP(ReluGrad, at::threshold_backward(x[0], x[1], 0));
  AIR_SIM_GE_OP(ThresholdGradV2D, at::threshold_backward(x[0], x[1], c.real("threshold")));
  AIR_SIM_GE_OP(GeluGradV2, gelu_grad(c));
  AIR_SIM_GE_OPS(GeGluV2, geglu(c));
  AIR_SIM_GE_OP(SwiGlu, swiglu(c));
  AIR_SIM_GE_OP(LeakyReluGrad, at::leaky_relu_backward(x[0], x[1], c.real("negative_slope"), false));
  AIR_SIM_GE_OP(HardSwishGrad, at::hardswish_backward(x[0], x[1]));
  AIR_SIM_GE_OP(HardSigmoidGrad, at::hardsigmoid_backward(x[0], x[1]));
  AIR_SIM_GE_OP(HardtanhGrad, at::hardtanh_backward(x[1], x[0], c.real("min_val", -1), c.real("max_val", 1)));
}
}  // namespace air_sim::graph_engine
