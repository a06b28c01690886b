// Process, device and context functions of the ABI.
#include "device.h"

#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "capture.h"
#include "events.h"
#include "launch_thread.h"
#include "status.h"
#include "stream.h"
#include "switches.h"

namespace air_sim {
namespace {
thread_local int t_device = -1;
char g_contexts[kMaxDevices];  // a context is the address of its device's element
std::atomic<uint64_t> g_timeout_us[kMaxDevices];
constexpr int64_t kDefaultTimeoutMs = 1800 * 1000;

aclError synchronize_device(int64_t timeout_ms) {
  if (synchronising_is_forbidden())
    return fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "synchronising the device while a stream is being captured");
  if (const aclError lost = launches_ended(current_device())) return lost;
  aclError result = ACL_SUCCESS;
  for (const auto& stream : streams_of_device(current_device())) {
    if (!stream->wait_idle(timeout_ms))
      return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %d did not finish within %lld ms", stream->id,
                  (long long)timeout_ms);
    if (const aclError error = stream->take_error()) result = error;
  }
  return result;
}
aclError set_timeout(uint64_t us) {
  g_timeout_us[current_device()] = us;
  return ACL_SUCCESS;
}
bool is_device(int32_t device) { return device >= 0 && device < switches().devices; }
}  // namespace

int current_device() { return t_device < 0 ? 0 : t_device; }
void use_device(int device) {
  t_device = device;
  watch_launch_thread(device);
}
int64_t kernel_timeout_ms(int device) {
  if (const int64_t chosen = switches().kernel_timeout_ms) return chosen;
  const uint64_t us = g_timeout_us[device];
  return us ? us / 1000 : kDefaultTimeoutMs;
}
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclInit(const char*) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclFinalize() {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API const char* aclrtGetSocName() {
  AIR_SIM_ENTRY;
  return switches().soc.c_str();
}
AIR_SIM_API aclError aclsysGetCANNVersion(aclCANNPackageName, aclCANNPackageVersion* out) {
  AIR_SIM_REFUSABLE;
  memset(out, 0, sizeof *out);
  int major = 0, minor = 0, release = 0;
  sscanf(switches().cann.c_str(), "%d.%d.%d", &major, &minor, &release);
  snprintf(out->version, sizeof out->version, "%s", switches().cann.c_str());
  snprintf(out->majorVersion, sizeof out->majorVersion, "%d", major);
  snprintf(out->minorVersion, sizeof out->minorVersion, "%d", minor);
  snprintf(out->releaseVersion, sizeof out->releaseVersion, "%d", release);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclsysGetVersionStr(char*, char* out) {
  AIR_SIM_REFUSABLE;
  strcpy(out, switches().cann.c_str());
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtGetDeviceCount(uint32_t* count) {
  AIR_SIM_REFUSABLE;
  *count = switches().devices;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSetDevice(int32_t device) {
  AIR_SIM_REFUSABLE;
  if (!is_device(device))
    return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d of %d: see the switch devices", device, switches().devices);
  use_device(device);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtGetDevice(int32_t* device) {
  AIR_SIM_REFUSABLE;
  if (t_device < 0) return ACL_ERROR_RT_CONTEXT_NULL;
  *device = t_device;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtResetDevice(int32_t device) {
  AIR_SIM_REFUSABLE;
  if (!is_device(device)) return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d", device);
  for (const auto& stream : streams_of_device(device)) stream->clear_error();
  forget_failures();
  return ACL_SUCCESS;
}
// Stops what a device is doing: whatever waits in its streams is dropped, and they start anew without errors.
AIR_SIM_API aclError aclrtDeviceTaskAbort(int32_t device, uint32_t) {
  AIR_SIM_REFUSABLE;
  const auto streams = streams_of_device(device);
  for (const auto& stream : streams) stream->kill();
  for (const auto& stream : streams) {
    stream->wait_idle(-1);
    stream->killed = false;
    stream->clear_error();
  }
  forget_failures();
  return launches_ended(device);
}
AIR_SIM_API aclError aclrtGetCurrentContext(aclrtContext* context) {
  AIR_SIM_REFUSABLE;
  if (t_device < 0) return ACL_ERROR_RT_CONTEXT_NULL;
  *context = &g_contexts[t_device];
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSetCurrentContext(aclrtContext context) {
  AIR_SIM_REFUSABLE;
  const ptrdiff_t device = static_cast<char*>(context) - g_contexts;
  if (device < 0 || device >= switches().devices) return fail(ACL_ERROR_RT_CONTEXT_NULL, "%p is not a context", context);
  use_device(static_cast<int>(device));
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t* flags, int32_t* active) {
  AIR_SIM_REFUSABLE;
  if (!is_device(device)) return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d", device);
  if (flags) *flags = 0;
  if (active) *active = 1;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclGetDeviceCapability(uint32_t, aclDeviceInfo, int64_t* value) {
  AIR_SIM_REFUSABLE;
  *value = 24;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclGetCannAttributeList(const aclCannAttr** list, size_t* count) {
  AIR_SIM_REFUSABLE;
  *list = nullptr;
  *count = 0;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclGetCannAttribute(aclCannAttr attribute, int32_t* value) {
  AIR_SIM_REFUSABLE;
  *value = attribute == ACL_CANN_ATTR_INF_NAN;  // the kernels compute infinities and NaN, as these chips do by default
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSetOpExecuteTimeOut(uint32_t seconds) {
  AIR_SIM_REFUSABLE;
  return set_timeout(seconds * 1000000ull);
}
AIR_SIM_API aclError aclrtSetOpExecuteTimeOutV2(uint64_t us, uint64_t* actual_us) {
  AIR_SIM_REFUSABLE;
  if (actual_us) *actual_us = us;
  return set_timeout(us);
}
AIR_SIM_API aclError aclrtSetOpWaitTimeout(uint32_t) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t, int32_t) {
  AIR_SIM_REFUSABLE;
  *can = 1;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtDeviceEnablePeerAccess(int32_t, uint32_t) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  AIR_SIM_REFUSABLE;
  *pid = getpid();
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtGetDeviceUtilizationRate(int32_t, aclrtUtilizationInfo* out) {
  AIR_SIM_REFUSABLE;
  memset(out, 0, sizeof *out);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtGetLogicDevIdByUserDevId(const int32_t user, int32_t* const logic) {
  AIR_SIM_REFUSABLE;
  *logic = user;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSynchronizeDevice() {
  AIR_SIM_REFUSABLE;
  return synchronize_device(-1);
}
AIR_SIM_API aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout_ms) {
  AIR_SIM_REFUSABLE;
  return synchronize_device(timeout_ms);
}
