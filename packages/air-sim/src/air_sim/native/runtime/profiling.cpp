// Logging, profiling and dump configuration: accepted, so that programs that switch them on still run; there is no device
// whose activity could be reported.
#include <acl/acl.h>
#include <acl/acl_dump.h>
#include <acl/acl_prof.h>

#include <functional>
#include <string>

#include "air_sim/runtime.h"
#include "status.h"

struct aclprofConfig {
  uint64_t what;
};

AIR_SIM_API void aclAppLog(aclLogLevel, const char*, const char*, uint32_t, const char*, ...) { AIR_SIM_ENTRY; }
AIR_SIM_API uint64_t MsprofSysCycleTime() {
  AIR_SIM_ENTRY;
  return air_sim::now_ns();
}
AIR_SIM_API uint64_t MsprofGetHashId(const char* text, size_t length) {
  AIR_SIM_ENTRY;
  return std::hash<std::string>()(std::string(text, length));
}
AIR_SIM_API int32_t MsprofRegisterCallback(uint32_t, void*) {
  AIR_SIM_ENTRY;
  return 0;
}
AIR_SIM_API int32_t MsprofReportApi(uint32_t, const void*) {
  AIR_SIM_ENTRY;
  return 0;
}
AIR_SIM_API int32_t MsprofReportCompactInfo(uint32_t, const void*, uint32_t) {
  AIR_SIM_ENTRY;
  return 0;
}
AIR_SIM_API int32_t MsprofReportAdditionalInfo(uint32_t, const void*, uint32_t) {
  AIR_SIM_ENTRY;
  return 0;
}
AIR_SIM_API aclError aclmdlInitDump() {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlSetDump(const char*) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlFinalizeDump() {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
