// Building blocks of the fused operators.
#include "fused.h"

#include <air_sim/four_bits.h>

namespace air_sim {
Normed rms_norm(const Tensor& x, const Tensor& gamma, double eps) {
  std::vector<int64_t> dims;
  for (int64_t d = x.dim() - gamma.dim(); d < x.dim(); ++d) dims.push_back(d);
  Tensor wide = x.to(at::kFloat);
  Tensor rstd = ((wide * wide).mean(dims, true) + eps).rsqrt();
  return {(wide * rstd * gamma.to(at::kFloat)).to(x.scalar_type()), rstd};
}

Tensor turn(const Tensor& x, Rotary mode) {
  if (mode == Rotary::kHalf) {
    auto parts = x.chunk(2, -1);
    return at::cat({-parts[1], parts[0]}, -1);
  }
  if (mode == Rotary::kQuarter) {
    auto parts = x.chunk(4, -1);
    return at::cat({-parts[1], parts[0], -parts[3], parts[2]}, -1);
  }
  TORCH_CHECK(mode == Rotary::kInterleave, "the rotary mode ", static_cast<int64_t>(mode), " is not implemented by air-sim");
  std::vector<int64_t> pairs = x.sizes().vec();
  pairs.back() /= 2;
  pairs.push_back(2);
  Tensor split = x.reshape(pairs);
  return at::stack({-split.select(-1, 1), split.select(-1, 0)}, -1).view(x.sizes());
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, Rotary mode) {
  Tensor wide = x.to(at::kFloat);
  if (mode == Rotary::kInterleaveHalf) {
    std::vector<int64_t> pairs = x.sizes().vec();
    pairs.back() /= 2;
    pairs.push_back(2);
    wide = wide.reshape(pairs).transpose(-1, -2).reshape(x.sizes());
    mode = Rotary::kHalf;
  }
  return (wide * cos.to(at::kFloat) + turn(wide, mode) * sin.to(at::kFloat)).to(x.scalar_type());
}

double largest(at::ScalarType type) {
  switch (type) {
    case at::kChar: return 127;
    case at::kInt: return 7;  // four bits, packed
    case at::kFloat8_e4m3fn: return 448;
    case at::kFloat8_e5m2: return 57344;
    default: TORCH_CHECK(false, "air-sim does not quantise to ", type);
  }
}

Tensor narrow_to(const Tensor& x, at::ScalarType type) {
  switch (type) {
    case at::kChar: return x.round().clamp(-128, 127).to(type);
    case at::kByte: return x.round().clamp(0, 255).to(type);
    case at::kInt: return x.to(at::kDouble).round().clamp(-2147483648.0, 2147483647.0).to(type);
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2: return x.clamp(-largest(type), largest(type)).to(type);
    default: return x.to(type);
  }
}

Tensor packed(const Tensor& values) {
  std::vector<int64_t> shape = values.sizes().vec();
  TORCH_CHECK(!shape.empty() && shape.back() % 8 == 0, "four bits are packed in eights, not in ", values.sizes());
  shape.back() /= 8;
  shape.push_back(8);
  return closed(values.round().clamp(-8, 7).reshape(shape));
}

Tensor unpacked(const Tensor& words) { return opened(words).flatten(-2); }

Tensor narrow_like(const Tensor& x, const Tensor& target) {
  bool four_bits = target.scalar_type() == at::kInt && target.dim() == x.dim() && x.dim() > 0 && target.size(-1) * 8 == x.size(-1);
  return four_bits ? packed(x) : narrow_to(x, target.scalar_type());
}

Tensor operand(const Tensor& x, int64_t depth) {
  if (x.scalar_type() != at::kInt) return x;
  if (depth >= 0 && x.dim() > 1 && x.size(-2) * 8 == depth) return unpacked(x.transpose(-1, -2)).transpose(-1, -2);
  return unpacked(x);
}

Quantised quantise_rows(const Tensor& x, at::ScalarType type) {
  Tensor wide = x.to(at::kFloat), scale = wide.abs().amax(-1, true) / largest(type);
  Tensor values = wide / scale.masked_fill(scale == 0, 1);
  return {type == at::kInt ? packed(values) : narrow_to(values, type), scale.squeeze(-1), Tensor()};
}

Tensor plain_scale(const Tensor& scale) {
  if (scale.scalar_type() != at::kLong && scale.scalar_type() != at::kUInt64) return scale.to(at::kFloat);
  Tensor bits = (scale.scalar_type() == at::kUInt64 ? scale.view(at::kLong) : scale).contiguous();
  return bits.bitwise_and(0xFFFFFFFF).contiguous().view(at::kFloat).slice(-1, 0, std::nullopt, 2).reshape(scale.sizes());
}
}  // namespace air_sim
