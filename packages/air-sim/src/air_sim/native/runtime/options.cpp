// Process-wide options: kept and given back.
#include <acl/acl.h>
#include <acl/acl_op_compiler.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include "air_sim/runtime.h"
#include "status.h"

namespace air_sim {
namespace {
std::mutex& options_mutex() {
  static std::mutex& m = *new std::mutex;
  return m;
}
std::map<int, std::string>& compile_options() {
  // torch_npu reads this one to choose between aclnn operators ("disable") and the older compiled ones.
  static auto& all = *new std::map<int, std::string>{{ACL_OP_JIT_COMPILE, "disable"}};
  return all;
}
std::map<int, int64_t>& system_options() {
  static auto& all = *new std::map<int, int64_t>;
  return all;
}
std::string compile_option(int option) {
  std::lock_guard<std::mutex> lock(options_mutex());
  const auto found = compile_options().find(option);
  return found == compile_options().end() ? "" : found->second;
}
aclError set_system(int option, int64_t value) {
  std::lock_guard<std::mutex> lock(options_mutex());
  system_options()[option] = value;
  return ACL_SUCCESS;
}
}  // namespace
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclSetCompileopt(aclCompileOpt option, const char* value) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(options_mutex());
  compile_options()[option] = value;
  return ACL_SUCCESS;
}
AIR_SIM_API size_t aclGetCompileoptSize(aclCompileOpt option) {
  AIR_SIM_ENTRY;
  return compile_option(option).size() + 1;
}
AIR_SIM_API aclError aclGetCompileopt(aclCompileOpt option, char* out, size_t capacity) {
  AIR_SIM_REFUSABLE;
  const std::string value = compile_option(option);
  if (value.size() >= capacity) return fail(ACL_ERROR_RT_PARAM_INVALID, "an option of %zu bytes", value.size());
  snprintf(out, capacity, "%s", value.c_str());
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclopSetCompileFlag(aclOpCompileFlag) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSetSysParamOpt(aclSysParamOpt option, int64_t value) {
  AIR_SIM_REFUSABLE;
  return set_system(option, value);
}
AIR_SIM_API aclError aclrtCtxSetSysParamOpt(aclSysParamOpt option, int64_t value) {
  AIR_SIM_REFUSABLE;
  return set_system(option, value);
}
AIR_SIM_API aclError aclrtGetSysParamOpt(aclSysParamOpt option, int64_t* value) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(options_mutex());
  *value = system_options()[option];
  return ACL_SUCCESS;
}
