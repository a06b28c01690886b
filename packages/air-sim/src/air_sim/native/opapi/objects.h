// The argument objects of the aclnn ABI (aclTensor and its kin), counted, because a call may outlive its caller's handle.
#pragma once
#include <acl/acl_base.h>
#include <atomic>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <cstdint>
#include <vector>

namespace air_sim {
// The first word of every object names its type: an argument of the wrong type is found instead of read.
struct Object {
  enum Type : uint32_t { kTensor = 0xA1C0DE01, kScalar, kIntArray, kFloatArray, kBoolArray, kTensorList, kScalarList, kDead };
  explicit Object(Type t) : type_mark(t) {}
  Type type_mark;
  std::atomic<int> references{1};
};
void retain(const Object* object);
void release(const Object* object);
}  // namespace air_sim

struct aclTensor : air_sim::Object {
  aclTensor() : Object(kTensor) {}
  std::vector<int64_t> sizes, strides, storage;
  int64_t offset = 0;
  aclDataType type = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  void* data = nullptr;
  // Of calls by name (by_name.cpp): the tensor itself, and whether a result takes its place; sized if its size is known.
  at::Tensor value;
  bool receives = false, sized = true;
};
struct aclScalar : air_sim::Object {
  aclScalar(const c10::Scalar& v, aclDataType t) : Object(kScalar), value(v), type(t) {}
  c10::Scalar value;
  aclDataType type;
};
struct aclIntArray : air_sim::Object {
  aclIntArray(const int64_t* p, uint64_t n) : Object(kIntArray), values(p, p + n) {}
  std::vector<int64_t> values;
};
struct aclFloatArray : air_sim::Object {
  aclFloatArray(const float* p, uint64_t n) : Object(kFloatArray), values(p, p + n) {}
  std::vector<float> values;
};
struct aclBoolArray : air_sim::Object {
  aclBoolArray(const bool* p, uint64_t n) : Object(kBoolArray), values(p, p + n) {}
  std::vector<char> values;
};
struct aclTensorList : air_sim::Object {
  aclTensorList(const aclTensor* const* p, uint64_t n) : Object(kTensorList), values(p, p + n) {}
  std::vector<const aclTensor*> values;
};
struct aclScalarList : air_sim::Object {
  aclScalarList(const aclScalar* const* p, uint64_t n) : Object(kScalarList), values(p, p + n) {}
  std::vector<const aclScalar*> values;
};
