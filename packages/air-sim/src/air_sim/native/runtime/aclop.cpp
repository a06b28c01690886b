// The older single-operator interface (aclop).  air-sim has aclnn operators only: descriptions can be built, because
// torch_npu builds them on its way, and executing one is an error that names the operator.  In torch_npu's launch thread
// it is an error of the stream, because one that is returned there would end the thread and cost the process its device.
#include <acl/acl.h>
#include <acl/acl_op_compiler.h>

#include <string>
#include <vector>

#include "air_sim/runtime.h"
#include "launch_thread.h"
#include "status.h"

struct aclTensorDesc {
  aclDataType type;
  aclFormat format;
  std::vector<int64_t> dims;
};
struct aclDataBuffer {
  void* address;
  size_t bytes;
};
struct aclopAttr {};

namespace {
aclError refused(const char* op, aclrtStream stream) {
  const std::string text = std::string("aclop ") + op +
                           ": air-sim has aclnn operators only, and torch_npu chose this older one because an aclnn function "
                           "it looked for is missing; AIR_SIM_SOC=Ascend950 makes torch_npu name that function";
  if (air_sim::in_launch_thread())
    return air_sim::enqueue(stream, [text] { air_sim::task_failed(text.c_str()); }, "aclop");
  return air_sim::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s", text.c_str());
}
}  // namespace

AIR_SIM_API aclError aclopCompileAndExecute(const char* op, int, const aclTensorDesc* const[], const aclDataBuffer* const[],
                                            int, const aclTensorDesc* const[], aclDataBuffer* const[], const aclopAttr*,
                                            aclopEngineType, aclopCompileType, const char*, aclrtStream stream) {
  AIR_SIM_ENTRY;
  return refused(op, stream);
}
AIR_SIM_API aclError aclopCompileAndExecuteV2(const char* op, int, aclTensorDesc*[], aclDataBuffer*[], int, aclTensorDesc*[],
                                              aclDataBuffer*[], aclopAttr*, aclopEngineType, aclopCompileType, const char*,
                                              aclrtStream stream) {
  AIR_SIM_ENTRY;
  return refused(op, stream);
}
AIR_SIM_API aclTensorDesc* aclCreateTensorDesc(aclDataType type, int count, const int64_t* dims, aclFormat format) {
  AIR_SIM_ENTRY;
  return new aclTensorDesc{type, format, {dims, dims + count}};
}
AIR_SIM_API void aclDestroyTensorDesc(const aclTensorDesc* desc) {
  AIR_SIM_ENTRY;
  delete desc;
}
AIR_SIM_API aclError aclSetTensorFormat(aclTensorDesc*, aclFormat) {
  AIR_SIM_ENTRY;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclSetTensorShape(aclTensorDesc*, int, const int64_t*) {
  AIR_SIM_ENTRY;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclSetTensorPlaceMent(aclTensorDesc*, aclMemType) {
  AIR_SIM_ENTRY;
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
  AIR_SIM_ENTRY;
  *dim = desc->dims.at(index);
  return ACL_SUCCESS;
}
AIR_SIM_API aclDataBuffer* aclCreateDataBuffer(void* address, size_t bytes) {
  AIR_SIM_ENTRY;
  return new aclDataBuffer{address, bytes};
}
AIR_SIM_API aclError aclDestroyDataBuffer(const aclDataBuffer* buffer) {
  AIR_SIM_ENTRY;
  delete buffer;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclUpdateDataBuffer(aclDataBuffer* buffer, void* address, size_t bytes) {
  AIR_SIM_ENTRY;
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
AIR_SIM_API aclError aclopSetAttrBool(aclopAttr*, const char*, uint8_t) { return ACL_SUCCESS; }
AIR_SIM_API aclError aclopSetAttrInt(aclopAttr*, const char*, int64_t) { return ACL_SUCCESS; }
AIR_SIM_API aclError aclopSetAttrFloat(aclopAttr*, const char*, float) { return ACL_SUCCESS; }
AIR_SIM_API aclError aclopSetAttrString(aclopAttr*, const char*, const char*) { return ACL_SUCCESS; }
AIR_SIM_API aclError aclopSetAttrDataType(aclopAttr*, const char*, aclDataType) { return ACL_SUCCESS; }
AIR_SIM_API aclError aclopSetAttrListInt(aclopAttr*, const char*, int, const int64_t*) { return ACL_SUCCESS; }
AIR_SIM_API aclError aclopSetAttrListFloat(aclopAttr*, const char*, int, const float*) { return ACL_SUCCESS; }
AIR_SIM_API aclError aclopSetAttrListBool(aclopAttr*, const char*, int, const uint8_t*) { return ACL_SUCCESS; }
AIR_SIM_API aclError aclopSetAttrListListInt(aclopAttr*, const char*, int, const int*, const int64_t* const[]) {
  return ACL_SUCCESS;
}
