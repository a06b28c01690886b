// What torch_npu and the library of transformer operators (libatb) know of each other: classes with virtual functions,
// passed in memory. Only the layout counts here; of each type, what a caller fills in or calls.
#pragma once
#include <acl/acl_rt.h>
#include <air_sim/runtime.h>
#include <cstdint>
#include <string>

namespace atb {
using Status = int32_t;

// A vector with room for so many elements inside itself; the heap is for callers that ask for more.
template <class T>
struct SVector {
  static constexpr size_t kRoom = 64;
  size_t capacity, count;
  T inside[kRoom + 1];
  T* heap;

  const T* begin() const { return heap ? heap : inside; }
  const T* end() const { return begin() + count; }
};

struct Dims {
  int64_t sizes[8];
  uint64_t count;
};
struct TensorDesc {
  aclDataType type;
  aclFormat format;
  Dims shape;
};
struct Tensor {
  TensorDesc desc;
  void* device;
  void* host;  // the other one is null
  uint64_t bytes;
};
struct VariantPack {
  SVector<Tensor> inputs, outputs;
};

class AIR_SIM_EXPORT Context {
 public:
  virtual ~Context() = default;
  virtual Status SetExecuteStream(aclrtStream stream) = 0;
  virtual aclrtStream GetExecuteStream() const = 0;
  virtual Status SetAsyncTilingCopyStatus(bool enable) = 0;
  virtual bool GetAsyncTilingCopyStatus() const = 0;
};

class AIR_SIM_EXPORT Operation {
 public:
  virtual ~Operation() = default;
  virtual std::string GetName() const = 0;
  virtual Status InferShape(const SVector<TensorDesc>& inputs, SVector<TensorDesc>& outputs) const = 0;
  virtual uint32_t GetInputNum() const = 0;
  virtual uint32_t GetOutputNum() const = 0;
  virtual Status Setup(const VariantPack& pack, uint64_t& workspace, Context* context) = 0;
  virtual Status Execute(const VariantPack& pack, uint8_t* workspace, uint64_t size, Context* context) = 0;
};

class Utils {
 public:
  AIR_SIM_EXPORT static uint64_t GetTensorSize(const Tensor& tensor);
};

AIR_SIM_EXPORT Status CreateContext(Context** context);
AIR_SIM_EXPORT Status DestroyContext(Context* context);
template <class Param>
Status CreateOperation(const Param& param, Operation** operation);
AIR_SIM_EXPORT Status DestroyOperation(Operation* operation);
}  // namespace atb
