// What the files of C++ kernels share.
#pragma once
#include "call.h"
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>

namespace air_sim {
using at::Tensor;
}  // namespace air_sim
