// The classes and functions that libatb exports, and operations as kernels on a stream.
#include "operation.h"
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

namespace air_sim {
namespace {
class OneContext : public atb::Context {
 public:
  atb::Status SetExecuteStream(aclrtStream stream) override {
    stream_ = stream;
    return 0;
  }
  aclrtStream GetExecuteStream() const override { return stream_; }
  atb::Status SetAsyncTilingCopyStatus(bool enable) override {
    copies_tiling_ = enable;
    return 0;
  }
  bool GetAsyncTilingCopyStatus() const override { return copies_tiling_; }

 private:
  aclrtStream stream_ = nullptr;
  bool copies_tiling_ = false;
};

Tensor over(const atb::TensorDesc& desc, void* memory) {
  const std::vector<int64_t> sizes(desc.shape.sizes, desc.shape.sizes + desc.shape.count);
  const auto options = at::TensorOptions().dtype(dtype_of(desc.type)).device(at::kCPU);
  return memory ? at::from_blob(memory, sizes, options) : at::empty(sizes, options);
}

// What a caller holds on the host lives only as long as the call: it is read now, as the tiling of a kernel is.
struct Given {
  explicit Given(const atb::Tensor& tensor) : desc(tensor.desc), device(tensor.device) {
    absent = desc.type == ACL_DT_UNDEFINED;
    if (tensor.host) host = over(desc, tensor.host).clone();
  }
  atb::TensorDesc desc;
  void* device;
  Tensor host;
  bool absent;
  Tensor now() const { return absent ? Tensor() : host.defined() ? host : over(desc, host_address(device)); }
};

Tensors now(const std::vector<Given>& given) {
  Tensors all;
  for (const auto& one : given) all.push_back(one.now());
  return all;
}

class OneKernel : public atb::Operation {
 public:
  OneKernel(const char* name, uint32_t inputs, uint32_t outputs, AtbKernel kernel)
      : name_(name), inputs_(inputs), outputs_(outputs), kernel_(std::move(kernel)) {}
  std::string GetName() const override { return name_; }
  atb::Status InferShape(const atb::SVector<atb::TensorDesc>&, atb::SVector<atb::TensorDesc>&) const override {
    set_error("%s: air-sim does not infer shapes of libatb's operations", name_);
    return ACL_ERROR_INTERNAL_ERROR;
  }
  uint32_t GetInputNum() const override { return inputs_; }
  uint32_t GetOutputNum() const override { return outputs_; }
  atb::Status Setup(const atb::VariantPack&, uint64_t& workspace, atb::Context*) override {
    workspace = kWorkspace;
    return 0;
  }
  atb::Status Execute(const atb::VariantPack& pack, uint8_t*, uint64_t, atb::Context* context) override {
    std::vector<Given> inputs(pack.inputs.begin(), pack.inputs.end());
    std::vector<Given> outputs(pack.outputs.begin(), pack.outputs.end());
    // the caller may destroy the operation before the kernel runs
    return launch(context, [kernel = kernel_, inputs, outputs] { kernel(now(inputs), now(outputs)); }, name_);
  }

 private:
  const char* name_;
  uint32_t inputs_, outputs_;
  AtbKernel kernel_;
};
}  // namespace

atb::Status launch(atb::Context* context, std::function<void()> kernel, const char* name) {
  auto run = [kernel = std::move(kernel), name] {
    if (noop()) return;
    c10::InferenceMode guard(true);
    try {
      kernel();
    } catch (const std::exception& error) {
      const std::string what = std::string(name) + ": " + error.what();
      task_failed(what.substr(0, what.find("\nException raised from")).substr(0, 900).c_str());
    }
  };
  return enqueue(context->GetExecuteStream(), std::move(run), name);
}

atb::Operation* operation(const char* name, uint32_t inputs, uint32_t outputs, AtbKernel kernel) {
  return new OneKernel(name, inputs, outputs, std::move(kernel));
}
}  // namespace air_sim

namespace atb {
Status CreateContext(Context** context) {
  AIR_SIM_COUNT("atb::CreateContext");
  *context = new air_sim::OneContext();
  return 0;
}
Status DestroyContext(Context* context) {
  delete context;
  return 0;
}
Status DestroyOperation(Operation* operation) {
  delete operation;
  return 0;
}
uint64_t Utils::GetTensorSize(const Tensor& tensor) {
  uint64_t count = 1;
  for (uint64_t i = 0; i < tensor.desc.shape.count; ++i) count *= static_cast<uint64_t>(tensor.desc.shape.sizes[i]);
  return count * c10::elementSize(air_sim::dtype_of(tensor.desc.type));
}

// What air-sim does not have is told by the stream, where the caller hears of it: torch_npu drops the reason of a refusal here.
#define AIR_SIM_ATB(Param, inputs, outputs)                                                         \
  template <>                                                                                       \
  AIR_SIM_EXPORT Status CreateOperation<infer::Param>(const infer::Param& param, Operation** made) { \
    AIR_SIM_COUNT("atb::CreateOperation<" #Param ">");                                              \
    air_sim::AtbKernel kernel;                                                                      \
    try {                                                                                           \
      kernel = air_sim::kernel_of(param);                                                           \
    } catch (const c10::Error& error) {                                                             \
      kernel = [why = std::string(error.what_without_backtrace())](const auto&, const auto&) { TORCH_CHECK(false, why); }; \
    }                                                                                               \
    *made = air_sim::operation("atb " #Param, inputs, outputs, std::move(kernel));                  \
    return 0;                                                                                       \
  }
AIR_SIM_ATB(LinearParam, 3, 1)
AIR_SIM_ATB(ElewiseParam, 3, 1)
AIR_SIM_ATB(RmsNormParam, 5, 1)
AIR_SIM_ATB(GroupTopkParam, 2, 1)
AIR_SIM_ATB(RopeParam, 5, 2)
AIR_SIM_ATB(ReshapeAndCacheParam, 5, 2)
AIR_SIM_ATB(PagedAttentionParam, 5, 1)
AIR_SIM_ATB(SelfAttentionParam, 5, 1)
#undef AIR_SIM_ATB
}  // namespace atb
