// What the libraries of air-sim may ask of the runtime (libascendcl): put work on a stream, report an error,
// count a call, translate a device address.  Operators, collectives and the graph engine need nothing else.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#define AIR_SIM_EXPORT __attribute__((visibility("default")))
// An exported function of the CANN C ABI.
#define AIR_SIM_API extern "C" AIR_SIM_EXPORT
// Count a call under a name, or under the name of the function it stands in.
#define AIR_SIM_COUNT(name)                                        \
  do {                                                             \
    static air_sim::Counter counter_(name);                        \
    counter_.calls.fetch_add(1, std::memory_order_relaxed);        \
  } while (0)
#define AIR_SIM_ENTRY AIR_SIM_COUNT(__func__)
// The same for a function that can be refused (switch `fault`): it gives `code` then, and does nothing.
#define AIR_SIM_ENTRY_OR(code)                       \
  AIR_SIM_ENTRY;                                     \
  if (air_sim::refused(__func__)) return code

namespace air_sim {
using Fn = std::function<void()>;

// True for the call of the function `name` + `end` that a fault was arranged for; the text is set.
AIR_SIM_EXPORT bool refused(const char* name, const char* end = "");

// Puts one kernel on an aclrtStream (null: the default stream of the current device); while the stream is being
// captured it becomes a node of the graph instead.  `name` must outlive the process.  Returns an aclError.
AIR_SIM_EXPORT int enqueue(void* stream, Fn kernel, const char* name);

// True under AIR_SIM_NOOP: kernels and asynchronous copies do nothing, so that only host time is left.
AIR_SIM_EXPORT bool noop();

// The text that aclGetRecentErrMsg gives to this thread.
AIR_SIM_EXPORT void set_error(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Called from inside a kernel: it failed.  The stream's next synchronisation reports it.
AIR_SIM_EXPORT void task_failed(const char* what);

// True inside a kernel whose stream is being torn down: a kernel that waits for something should give up.
AIR_SIM_EXPORT bool task_cancelled();

// The address through which kernels may touch the memory of a device address.  The same address, unless device
// memory is protected (AIR_SIM_PROTECT): then only this alias is accessible.  Anything that is not device memory
// comes back unchanged, null too.
AIR_SIM_EXPORT void* host_address(const void* address);

// Arguments of an operator call, for the dump that aclopStartDumpArgs switches on.
struct OpArg {
  enum Kind { kTensor, kTensorList, kScalar, kInt, kFloat, kBool, kString, kIntList, kNone } kind = kNone;
  int type = 0;                          // aclDataType of a tensor or scalar
  int format = 2;                        // aclFormat of a tensor (2 is ND)
  bool output = false;                   // a tensor the operator writes
  std::vector<int64_t> sizes, strides;   // of a tensor; the values of an int list
  int64_t integer = 0;                   // int, bool
  double real = 0;                       // float, scalar
  std::string text;                      // string
  std::vector<OpArg> items;              // of a tensor list
};
// Cheap test to be made before building the arguments.
AIR_SIM_EXPORT bool dumping_args();
AIR_SIM_EXPORT void dump_args(const char* op, const std::vector<OpArg>& args);

// Call counters (AIR_SIM_COUNT_FILE: written at exit).
struct AIR_SIM_EXPORT Counter {
  explicit Counter(const char* name);
  const char* name;
  std::atomic<uint64_t> calls{0};
  Counter* next;
};
}  // namespace air_sim
