// The older single-operator interface (aclop): an operator type with inputs, outputs and attributes.  The kernels are those of
// the graph engine, which has the same operator types.  A type without one is an error that names it; in torch_npu's launch
// thread that is an error of the stream, because one that is returned there would end the thread and cost the process its device.
#include <acl/acl.h>
#include <acl/acl_op_compiler.h>

#include <memory>
#include <string>
#include <vector>

#include "air_sim/aclop.h"
#include "air_sim/runtime.h"
#include "launch_thread.h"
#include "status.h"

struct aclTensorDesc {
  aclDataType type;
  aclFormat format;
  std::vector<int64_t> dims;
  bool on_host = false;
};
struct aclDataBuffer {
  void* address;
  size_t bytes;
};
struct aclopAttr {
  std::map<std::string, air_sim::AclopAttribute> values;
};

namespace air_sim {
namespace {
AclopKernels kernels{nullptr, nullptr};

// Formats that hold the elements in their order.
bool is_plain(aclFormat format) {
  for (const aclFormat plain : {ACL_FORMAT_UNDEFINED, ACL_FORMAT_ND, ACL_FORMAT_NCHW, ACL_FORMAT_NCL, ACL_FORMAT_NCDHW, ACL_FORMAT_NHWC, ACL_FORMAT_NDHWC})
    if (format == plain) return true;
  return false;
}
AclopTensor tensor_of(const aclTensorDesc* desc, const aclDataBuffer* buffer) {
  AclopTensor made;
  if (!desc || desc->type == ACL_DT_UNDEFINED) return made;
  made.given = true;
  made.type = desc->type;
  made.sizes = desc->dims;
  made.data = buffer ? buffer->address : nullptr;
  if (desc->on_host && made.data) made.host.assign(static_cast<const char*>(made.data), buffer->bytes);
  return made;
}
std::string why_not(const AclopCall& call, const std::vector<aclFormat>& formats) {
  if (!kernels.has || !kernels.has(call.type))
    return "air-sim has no kernel for this operator type of the older interface, which torch_npu chose instead of an aclnn "
           "function; a kernel is a row of native/ge/kernels_*.cpp";
  for (const aclFormat format : formats)
    if (!is_plain(format)) return "air-sim has no tensors of the private format " + std::to_string(format);
  return "";
}
aclError refused(const std::string& text, aclrtStream stream) {
  if (in_launch_thread()) return enqueue(stream, [text] { task_failed(text.c_str()); }, "aclop");
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s", text.c_str());
}
void run(const AclopCall& call) {
  if (noop()) return;
  try {
    kernels.run(call);
  } catch (const std::exception& error) {
    const std::string what = "aclop " + call.type + ": " + error.what();
    task_failed(what.substr(0, what.find("\nException raised from")).substr(0, 900).c_str());
  }
}

template <class Desc, class In, class Out>
aclError launch(const char* type, int inputs, Desc* in, In* in_data, int outputs, Desc* out, Out* out_data,
                const aclopAttr* attributes, aclrtStream stream) {
  auto call = std::make_shared<AclopCall>();
  call->type = type;
  std::vector<aclFormat> formats;
  for (int i = 0; i < inputs; ++i) call->inputs.push_back(tensor_of(in[i], in_data[i])), formats.push_back(in[i]->format);
  for (int i = 0; i < outputs; ++i) call->outputs.push_back(tensor_of(out[i], out_data[i])), formats.push_back(out[i]->format);
  if (attributes) call->attributes = attributes->values;
  if (const std::string why = why_not(*call, formats); !why.empty()) return refused("aclop " + call->type + ": " + why, stream);
  return enqueue(stream, [call] { run(*call); }, "aclop");
}
}  // namespace

void set_aclop_kernels(const AclopKernels& given) { kernels = given; }
}  // namespace air_sim

AIR_SIM_API aclError aclopCompileAndExecute(const char* op, int inputs, const aclTensorDesc* const in[], const aclDataBuffer* const in_data[],
                                            int outputs, const aclTensorDesc* const out[], aclDataBuffer* const out_data[],
                                            const aclopAttr* attributes, aclopEngineType, aclopCompileType, const char*, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  return air_sim::launch(op, inputs, in, in_data, outputs, out, out_data, attributes, stream);
}
AIR_SIM_API aclError aclopCompileAndExecuteV2(const char* op, int inputs, aclTensorDesc* in[], aclDataBuffer* in_data[], int outputs,
                                              aclTensorDesc* out[], aclDataBuffer* out_data[], aclopAttr* attributes, aclopEngineType,
                                              aclopCompileType, const char*, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  return air_sim::launch(op, inputs, in, in_data, outputs, out, out_data, attributes, stream);
}
AIR_SIM_API aclTensorDesc* aclCreateTensorDesc(aclDataType type, int count, const int64_t* dims, aclFormat format) {
  AIR_SIM_ENTRY;
  return new aclTensorDesc{type, format, {dims, dims + count}, false};
}
AIR_SIM_API void aclDestroyTensorDesc(const aclTensorDesc* desc) {
  AIR_SIM_ENTRY;
  delete desc;
}
AIR_SIM_API aclError aclSetTensorFormat(aclTensorDesc*, aclFormat) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclSetTensorShape(aclTensorDesc*, int, const int64_t*) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType where) {
  AIR_SIM_REFUSABLE;
  desc->on_host = where != ACL_MEMTYPE_DEVICE;
  return ACL_SUCCESS;
}
AIR_SIM_API void aclSetTensorDescName(aclTensorDesc*, const char*) { AIR_SIM_ENTRY; }
AIR_SIM_API aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  AIR_SIM_ENTRY;
  return desc->format;
}
AIR_SIM_API aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  AIR_SIM_ENTRY;
  return desc->type;
}
AIR_SIM_API size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  AIR_SIM_ENTRY;
  return desc->dims.size();
}
AIR_SIM_API aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dim) {
  AIR_SIM_REFUSABLE;
  *dim = desc->dims.at(index);
  return ACL_SUCCESS;
}
AIR_SIM_API aclDataBuffer* aclCreateDataBuffer(void* address, size_t bytes) {
  AIR_SIM_ENTRY;
  return new aclDataBuffer{address, bytes};
}
AIR_SIM_API aclError aclDestroyDataBuffer(const aclDataBuffer* buffer) {
  AIR_SIM_REFUSABLE;
  delete buffer;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclUpdateDataBuffer(aclDataBuffer* buffer, void* address, size_t bytes) {
  AIR_SIM_REFUSABLE;
  *buffer = {address, bytes};
  return ACL_SUCCESS;
}
AIR_SIM_API void* aclGetDataBufferAddr(const aclDataBuffer* buffer) { return buffer ? buffer->address : nullptr; }
AIR_SIM_API size_t aclGetDataBufferSizeV2(const aclDataBuffer* buffer) { return buffer ? buffer->bytes : 0; }
AIR_SIM_API aclopAttr* aclopCreateAttr() {
  AIR_SIM_ENTRY;
  return new aclopAttr;
}
AIR_SIM_API void aclopDestroyAttr(const aclopAttr* attributes) {
  AIR_SIM_ENTRY;
  delete attributes;
}

// The value of an attribute, new or as it is.
static air_sim::AclopAttribute& value_of(aclopAttr* attributes, const char* name) { return attributes->values[name]; }

AIR_SIM_API aclError aclopSetAttrBool(aclopAttr* attributes, const char* name, uint8_t value) {
  value_of(attributes, name).integer = value != 0;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclopSetAttrInt(aclopAttr* attributes, const char* name, int64_t value) {
  value_of(attributes, name).integer = value;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclopSetAttrFloat(aclopAttr* attributes, const char* name, float value) {
  value_of(attributes, name).real = value;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclopSetAttrString(aclopAttr* attributes, const char* name, const char* value) {
  value_of(attributes, name).text = value;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclopSetAttrDataType(aclopAttr* attributes, const char* name, aclDataType value) {
  value_of(attributes, name).integer = value;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclopSetAttrListInt(aclopAttr* attributes, const char* name, int count, const int64_t* values) {
  value_of(attributes, name).ints.assign(values, values + count);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclopSetAttrListFloat(aclopAttr* attributes, const char* name, int count, const float* values) {
  value_of(attributes, name).reals.assign(values, values + count);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclopSetAttrListBool(aclopAttr* attributes, const char* name, int count, const uint8_t* values) {
  value_of(attributes, name).ints.assign(values, values + count);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclopSetAttrListListInt(aclopAttr*, const char*, int, const int*, const int64_t* const[]) { return ACL_SUCCESS; }
