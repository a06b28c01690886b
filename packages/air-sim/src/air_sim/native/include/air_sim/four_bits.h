// Signed values of four bits: eight lie in a number of 32 bits, the first one in the lowest bits.
#pragma once
#include <ATen/ATen.h>

namespace air_sim {
// The values along a new last axis of eight.
inline at::Tensor opened(const at::Tensor& words) {
  const at::Tensor bits = at::bitwise_right_shift(words.to(at::kLong).unsqueeze(-1), at::arange(0, 32, 4, at::kLong)).bitwise_and(0xF);
  return at::where(bits >= 8, bits - 16, bits).to(at::kChar);
}
// The numbers that hold what lies along a last axis of eight.
inline at::Tensor closed(const at::Tensor& values) {
  const at::Tensor bits = values.to(at::kLong).bitwise_and(0xF);
  const at::Tensor words = at::bitwise_left_shift(bits, at::arange(0, 32, 4, at::kLong)).sum(-1);
  return at::where(words >= (1LL << 31), words - (1LL << 32), words).to(at::kInt);
}
}  // namespace air_sim
