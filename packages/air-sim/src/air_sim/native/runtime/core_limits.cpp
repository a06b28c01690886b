// How many cube and vector cores a device, a stream or the work of a thread may use: stored and given back, since
// kernels here do not run on cores.
#include <map>
#include <mutex>

#include "device.h"
#include "status.h"
#include "stream.h"
#include "switches.h"

namespace air_sim {
namespace {
constexpr uint32_t kCores[2] = {24, 48};  // cube, vector
struct Limits {
  std::mutex m;
  std::map<int, std::map<int, uint32_t>> of_device;
  std::map<Stream*, std::map<int, uint32_t>> of_stream;
};
Limits& limits() {
  static Limits& it = *new Limits;
  return it;
}
thread_local Stream* t_used = nullptr;  // the stream whose limits this thread works under

aclError check(aclrtDevResLimitType type, uint32_t value) {
  if (type != ACL_RT_DEV_RES_CUBE_CORE && type != ACL_RT_DEV_RES_VECTOR_CORE)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "resource type %d is not known", static_cast<int>(type));
  if (value < 1 || value > kCores[type])
    return fail(ACL_ERROR_RT_PARAM_INVALID, "a core limit of %u: the device has 1 to %u", value, kCores[type]);
  return ACL_SUCCESS;
}
uint32_t device_limit(int device, int type) {
  const auto& set = limits().of_device[device];
  const auto found = set.find(type);
  return found == set.end() ? kCores[type & 1] : found->second;
}
uint32_t stream_limit(Stream* stream, int type) {
  const auto& set = limits().of_stream[stream];
  const auto found = set.find(type);
  return found == set.end() ? device_limit(stream->device, type) : found->second;
}
}  // namespace
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclrtGetDeviceInfo(uint32_t, aclrtDevAttr attribute, int64_t* value) {
  AIR_SIM_REFUSABLE;
  *value = attribute == ACL_DEV_ATTR_VECTOR_CORE_NUM ? kCores[1] : kCores[0];
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t value) {
  AIR_SIM_REFUSABLE;
  if (const aclError error = check(type, value)) return error;
  std::lock_guard<std::mutex> lock(limits().m);
  limits().of_device[device][type] = value;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtResetDeviceResLimit(int32_t device) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(limits().m);
  limits().of_device.erase(device);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtGetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t* value) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(limits().m);
  *value = device_limit(device, type);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value) {
  AIR_SIM_REFUSABLE;
  if (const aclError error = check(type, value)) return error;
  Stream* s = stream_of(stream);
  std::lock_guard<std::mutex> lock(limits().m);
  limits().of_stream[s][type] = value;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtResetStreamResLimit(aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  Stream* s = stream_of(stream);
  std::lock_guard<std::mutex> lock(limits().m);
  limits().of_stream.erase(s);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t* value) {
  AIR_SIM_REFUSABLE;
  Stream* s = stream_of(stream);
  std::lock_guard<std::mutex> lock(limits().m);
  *value = stream_limit(s, type);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  t_used = stream_of(stream);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtUnuseStreamResInCurrentThread(aclrtStream) {
  AIR_SIM_REFUSABLE;
  t_used = nullptr;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(limits().m);
  *value = t_used ? stream_limit(t_used, type) : device_limit(current_device(), type);
  return ACL_SUCCESS;
}
