// Error texts, the last asynchronous error of a thread, and what to return with them.
#pragma once
#include <acl/acl.h>
#include <acl/error_codes/rt_error_codes.h>

#include <string>
#include <utility>
#include <vector>

#include "air_sim/runtime.h"

namespace air_sim {
// What a call that a fault was arranged for gives.
constexpr aclError kRefused = ACL_ERROR_RT_DRV_INTERNAL_ERROR;
#define AIR_SIM_REFUSABLE AIR_SIM_ENTRY_OR(air_sim::kRefused)
// Remembers the text for aclGetRecentErrMsg and returns the code.
aclError fail(aclError code, const char* format, ...) __attribute__((format(printf, 2, 3)));
// Remembers an asynchronous error that this thread was just told about.
aclError report_async(aclError code, const std::string& text);
// The functions of the driver whose n-th call from now is refused.
void set_refusals(std::vector<std::pair<std::string, int64_t>> calls);
uint64_t now_ns();
}  // namespace air_sim
