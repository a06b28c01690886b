// Functions that libtorch has no kernel of half precision for on a CPU, where a device has one: they compute in single precision.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstring>
#include <exception>

namespace air_sim {
inline bool lacks_half(const std::exception& error) {
  return std::strstr(error.what(), "not implemented for 'Half'") || std::strstr(error.what(), "not implemented for 'BFloat16'");
}
inline bool is_half(const at::Tensor& t) { return t.defined() && at::isReducedFloatingType(t.scalar_type()); }
inline at::Tensor widened(const at::Tensor& t) { return is_half(t) ? t.to(at::kFloat) : t; }
}  // namespace air_sim
