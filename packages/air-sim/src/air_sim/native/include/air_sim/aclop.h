// Calls of the older single-operator interface (aclop): an operator type with attributes, which the graph engine has kernels for.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "air_sim/runtime.h"

namespace air_sim {
struct AclopTensor {
  bool given = false;          // an optional input may be missing
  int type = 0;                // aclDataType
  std::vector<int64_t> sizes;
  void* data = nullptr;        // of a device, or of `host`
  std::string host;            // the bytes of an operand that the caller keeps on the host
};
struct AclopAttribute {
  int64_t integer = 0;
  float real = 0;
  std::string text;
  std::vector<int64_t> ints;
  std::vector<float> reals;
};
struct AclopCall {
  std::string type;
  std::vector<AclopTensor> inputs, outputs;
  std::map<std::string, AclopAttribute> attributes;
};
// Who runs them: whether there is a kernel, and the kernel, which throws when it fails.
struct AclopKernels {
  bool (*has)(const std::string& type);
  void (*run)(const AclopCall& call);
};
AIR_SIM_EXPORT void set_aclop_kernels(const AclopKernels& kernels);
}  // namespace air_sim
