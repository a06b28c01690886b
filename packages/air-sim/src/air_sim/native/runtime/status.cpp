// Error texts per thread, and the counters of calls.
#include "status.h"

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "launch_thread.h"
#include "switches.h"

namespace air_sim {
namespace {
thread_local std::string t_message;
thread_local aclError t_last = ACL_SUCCESS;
std::atomic<Counter*> g_counters{nullptr};
struct Refusals {
  std::mutex m;
  std::vector<std::pair<std::string, int64_t>> calls;
  std::atomic<bool> any{false};
};
Refusals& refusals() {
  static Refusals& all = *new Refusals;
  return all;
}

void remember(std::string text) {
  if (switches().verbose) fprintf(stderr, "[air-sim] %s\n", text.c_str());
  t_message = std::move(text);
}
std::string formatted(const char* format, va_list arguments) {
  char buffer[2048];
  vsnprintf(buffer, sizeof buffer, format, arguments);
  return buffer;
}
void write_counters() {
  FILE* file = fopen(switches().count_file.c_str(), "w");
  if (!file) return;
  for (Counter* c = g_counters; c; c = c->next)
    fprintf(file, "%10llu %s\n", static_cast<unsigned long long>(c->calls.load()), c->name);
  fclose(file);
}
}  // namespace

void set_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = formatted(format, arguments);
  va_end(arguments);
  note_failed_call(ACL_ERROR_INTERNAL_ERROR, text);
  remember(text);
}

aclError fail(aclError code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = formatted(format, arguments);
  va_end(arguments);
  note_failed_call(code, text);
  t_last = code;
  remember(text + " (error " + std::to_string(code) + ")");
  return code;
}

aclError report_async(aclError code, const std::string& text) {
  t_last = code;
  remember(text + " (error " + std::to_string(code) + ")");
  return code;
}

void set_refusals(std::vector<std::pair<std::string, int64_t>> calls) {
  Refusals& all = refusals();
  std::lock_guard<std::mutex> lock(all.m);
  all.any = !calls.empty();
  all.calls = std::move(calls);
}

bool refused(const char* name, const char* end) {
  Refusals& all = refusals();
  if (!all.any.load(std::memory_order_relaxed)) return false;
  const std::string called = std::string(name) + end;
  bool now = false;
  {
    std::lock_guard<std::mutex> lock(all.m);
    for (auto& [function, left] : all.calls) now |= function == called && left-- == 1;
  }
  if (now) fail(kRefused, "%s: a fault was injected", called.c_str());
  return now;
}

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

Counter::Counter(const char* counted) : name(counted) {
  static const bool registered = !switches().count_file.empty() && atexit(write_counters) == 0;
  (void)registered;
  next = g_counters.load();
  while (!g_counters.compare_exchange_weak(next, this)) {
  }
}
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API const char* aclGetRecentErrMsg() {
  AIR_SIM_ENTRY;
  static thread_local std::string given;
  given.swap(t_message);
  t_message.clear();
  return given.c_str();
}
AIR_SIM_API aclError aclrtPeekAtLastError(aclrtLastErrLevel) {
  AIR_SIM_ENTRY;
  return t_last;
}
AIR_SIM_API aclError aclrtGetLastError(aclrtLastErrLevel) {
  AIR_SIM_ENTRY;
  return std::exchange(t_last, ACL_SUCCESS);
}

// Calls of a function so far (several counters may carry one name: they add up).
AIR_SIM_API uint64_t air_sim_calls(const char* name) {
  uint64_t sum = 0;
  for (Counter* c = g_counters; c; c = c->next)
    if (!strcmp(c->name, name)) sum += c->calls;
  return sum;
}
// "calls name" lines of every counter that was hit; the text stays valid until this thread asks again.
AIR_SIM_API const char* air_sim_counters() {
  static thread_local std::string text;
  text.clear();
  for (Counter* c = g_counters; c; c = c->next)
    if (const uint64_t calls = c->calls) text += std::to_string(calls) + " " + c->name + "\n";
  return text.c_str();
}
// What a stub does: the function exists for the dynamic linker only.
AIR_SIM_API int air_sim_missing(const char* name) {
  fprintf(stderr, "[air-sim] %s was called, and air-sim does not implement it\n", name);
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "air-sim does not implement %s", name);
}
