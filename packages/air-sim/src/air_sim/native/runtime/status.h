// Error texts, the last asynchronous error of a thread, and what to return with them.
#pragma once
#include <acl/acl.h>
#include <acl/error_codes/rt_error_codes.h>

#include <string>

#include "air_sim/runtime.h"

namespace air_sim {
// Remembers the text for aclGetRecentErrMsg and returns the code.
aclError fail(aclError code, const char* format, ...) __attribute__((format(printf, 2, 3)));
// Remembers an asynchronous error that this thread was just told about.
aclError report_async(aclError code, const std::string& text);
uint64_t now_ns();
}  // namespace air_sim
