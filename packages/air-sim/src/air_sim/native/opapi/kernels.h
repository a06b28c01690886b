// What the files of C++ kernels share.
#pragma once
#include "call.h"
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>

namespace air_sim {
using at::Tensor;

// The form of gelu that a mode means.
inline const char* approximation(int64_t mode) { return mode == 1 ? "tanh" : "none"; }
}  // namespace air_sim
