// The library of aclnn functions by name, for the graph engine: arguments and results are tensors, not addresses.
#pragma once
#include <ATen/core/Tensor.h>
#include <map>
#include <string>
#include <vector>

namespace air_sim {
// One argument. A parameter takes what its kind asks for: a tensor (or a list of that one), the numbers in it, or a value.
struct Argument {
  at::Tensor tensor;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<int64_t> ints;
};
// A result as the caller expects it.
struct Expected {
  at::ScalarType type;
  bool sized;
  std::vector<int64_t> sizes;
};
// Runs aclnn<name>. A parameter that it writes is either among the arguments, and written in place, or among the expected
// results, which are given back; one that is neither is not wanted. Throws for a required parameter that is missing, and
// for a name that is none of the function's.
__attribute__((visibility("default"))) std::map<std::string, at::Tensor> run_operator(
    const std::string& name, const std::map<std::string, Argument>& given, const std::map<std::string, Expected>& expected);
}  // namespace air_sim
