// The exported functions: for every name of names.inc, aclnnXGetWorkspaceSize and aclnnX.
//
// No C prototype is written for any of them.  The exported symbol loads its number and jumps to one routine that saves
// the argument registers; the definition's signature then says which register or stack slot holds which argument.
#include "call.h"
#include <ATen/core/grad_mode.h>
#include <acl/acl_rt.h>
#include <air_sim/launches.h>
#include <air_sim/runtime.h>
#include <c10/core/InferenceMode.h>
#include <cstring>

namespace air_sim {
namespace {
constexpr int kNullArgument = 161001, kBadArgument = 161002, kNotImplemented = 561112, kInternal = 561000;
constexpr size_t kIntegerRegisters =
#if defined(__x86_64__)
    6;
#else
    8;
#endif
constexpr size_t kFloatRegisters = 8;
}  // namespace

// As the assembly below leaves them.
struct Registers {
  uint64_t integers[kIntegerRegisters];
  uint64_t floats[kFloatRegisters];
};

struct Entry {
  const char* name;
  std::atomic<const Definition*> definition{nullptr};
  std::atomic<Counter*> counter{nullptr};
};

namespace {
Entry entries[] = {
#define NAME(number, name) {"aclnn" #name},
#define LARGEST_WORKSPACE(number, name)
#include "names.inc"
#undef NAME
#undef LARGEST_WORKSPACE
};

// Added to the number of a function when the largest workspace of any update is asked for, before a capture.
constexpr uint64_t kLargest = 1 << 20;
constexpr uint64_t kLargestBytes = 1024;  // kernels here need none, but a buffer that callers share should not be empty

class Arguments {
 public:
  Arguments(const Registers* registers, const uint64_t* stack) : registers_(registers), stack_(stack) {}
  uint64_t integer() { return integers_ < kIntegerRegisters ? registers_->integers[integers_++] : *stack_++; }
  uint64_t real() { return floats_ < kFloatRegisters ? registers_->floats[floats_++] : *stack_++; }

 private:
  const Registers* registers_;
  const uint64_t* stack_;
  size_t integers_ = 0, floats_ = 0;
};

template <class T>
T bits(uint64_t word) {
  T value;
  memcpy(&value, &word, sizeof value);
  return value;
}

Value read_value(Arguments& arguments, char kind) {
  Value value;
  switch (kind) {
    case 'd': value.real = bits<double>(arguments.real()); break;
    case 'f': value.real = bits<float>(arguments.real()); break;
    case 'i': value.integer = static_cast<int64_t>(arguments.integer()); break;
    case 'h': case 'D': value.integer = bits<int32_t>(arguments.integer()); break;
    case 'c': value.integer = bits<int8_t>(arguments.integer()); break;
    case 'b': value.integer = bits<uint8_t>(arguments.integer()) != 0; break;
    default: value.pointer = reinterpret_cast<const void*>(arguments.integer());
  }
  return value;
}

struct KindOfObject {
  char kind;
  Object::Type type;
  const char* called;
};
const KindOfObject kObjects[] = {
    {'T', Object::kTensor, "an aclTensor"},         {'L', Object::kTensorList, "an aclTensorList"},
    {'S', Object::kScalar, "an aclScalar"},         {'R', Object::kScalarList, "an aclScalarList"},
    {'I', Object::kIntArray, "an aclIntArray"},     {'F', Object::kFloatArray, "an aclFloatArray"},
    {'B', Object::kBoolArray, "an aclBoolArray"},
};

int refuse(int code, const char* function, const std::string& why) {
  set_error("%s: %s", function, why.c_str());
  return code;
}

int check_tensor(const char* function, const Parameter& parameter, const aclTensor* tensor) {
  if (!tensor || has_dtype(tensor->type)) return 0;
  return refuse(kBadArgument, function, parameter.name + " has aclDataType " + std::to_string(tensor->type) +
                                            ", which air-sim cannot compute with");
}

// A null where none is allowed, an object of another type, a data type without a kernel.
int check_value(const char* function, const Parameter& parameter, const Value& value) {
  for (const auto& object : kObjects) {
    if (object.kind != parameter.kind) continue;
    if (!value.pointer)
      return parameter.nullable ? 0 : refuse(kNullArgument, function, parameter.name + " is null");
    bool plausible = value.integer > 4096 || value.integer < 0;
    if (!plausible || static_cast<const Object*>(value.pointer)->type_mark != object.type)
      return refuse(kBadArgument, function, parameter.name + " is not " + object.called +
                                                ": the signature in air-sim does not fit the caller");
    if (parameter.kind == 'T')
      return check_tensor(function, parameter, static_cast<const aclTensor*>(static_cast<const Object*>(value.pointer)));
  }
  return 0;
}

const Definition* definition_of(Entry& entry) {
  const Definition* known = entry.definition.load(std::memory_order_acquire);
  if (known) return known;
  known = find_definition(entry.name);
  entry.definition.store(known, std::memory_order_release);
  return known;
}
}  // namespace
}  // namespace air_sim

struct aclOpExecutor {
  std::shared_ptr<air_sim::Call> call;
  air_sim::Entry* entry;
};

namespace air_sim {
namespace {
void run(Call& call) {
  if (noop()) return;
  c10::InferenceMode guard(true);
  try {
    call.compute();
  } catch (const std::exception& error) {
    std::string what = call.definition.name + ": " + error.what();
    task_failed(what.substr(0, what.find("\nException raised from")).substr(0, 900).c_str());
  }
}

OpArg describe(const Parameter& parameter, const Value& value);

OpArg describe_tensor(const aclTensor* tensor, bool output) {
  OpArg arg;
  arg.kind = OpArg::kTensor;
  arg.type = tensor->type;
  arg.format = tensor->format;
  arg.output = output;
  arg.sizes = tensor->sizes;
  arg.strides = tensor->strides;
  return arg;
}

OpArg describe_list(const aclTensorList* list, bool output) {
  OpArg arg;
  arg.kind = OpArg::kTensorList;
  arg.output = output;
  for (auto* item : list->values) arg.items.push_back(item ? describe_tensor(item, output) : OpArg{});
  return arg;
}

OpArg describe_number(char kind, const Value& value) {
  OpArg arg;
  arg.integer = value.integer;
  arg.kind = kind == 'b' ? OpArg::kBool : OpArg::kInt;
  if (kind == 'd' || kind == 'f') {
    arg.kind = OpArg::kFloat;
    arg.integer = 0;
    arg.real = value.real;
  }
  return arg;
}

OpArg describe(const Parameter& parameter, const Value& value) {
  if (strchr("ihcbdfD", parameter.kind)) return describe_number(parameter.kind, value);
  OpArg arg;
  if (!value.pointer) return arg;
  auto* object = static_cast<const Object*>(value.pointer);
  switch (parameter.kind) {
    case 'T': return describe_tensor(static_cast<const aclTensor*>(object), parameter.written);
    case 'L': return describe_list(static_cast<const aclTensorList*>(object), parameter.written);
    case 'S':
      arg.kind = OpArg::kScalar;
      arg.type = static_cast<const aclScalar*>(object)->type;
      if (!static_cast<const aclScalar*>(object)->value.isComplex()) arg.real = static_cast<const aclScalar*>(object)->value.toDouble();
      break;
    case 'I':
      arg.kind = OpArg::kIntList;
      arg.sizes = static_cast<const aclIntArray*>(object)->values;
      break;
    case 's':
      arg.kind = OpArg::kString;
      arg.text = static_cast<const char*>(value.pointer);
      break;
    default: break;
  }
  return arg;
}

void dump(const Call& call) {
  std::vector<OpArg> args;
  for (size_t i = 0; i < call.values.size(); ++i) args.push_back(describe(call.definition.parameters[i], call.values[i]));
  dump_args(call.definition.name.c_str(), args);
}

void count(Entry& entry) {
  Counter* counter = entry.counter.load(std::memory_order_acquire);
  if (!counter) {
    auto* made = new Counter(entry.name);
    if (entry.counter.compare_exchange_strong(counter, made)) counter = made;
  }
  counter->calls.fetch_add(1, std::memory_order_relaxed);
}

int prepare(Entry& entry, bool largest, const Registers* registers, const uint64_t* stack) {
  if (const int lost = device_lost()) return lost;
  if (refused(entry.name, "GetWorkspaceSize")) return kInternal;
  const Definition* definition = definition_of(entry);
  if (!definition)
    return refuse(kNotImplemented, entry.name,
                  "air-sim does not implement this aclnn function; add a row or a kernel for it to native/opapi "
                  "(docs/air-sim-operators.md says how)");
  Arguments arguments(registers, stack);
  std::vector<Value> values;
  values.reserve(definition->parameters.size());
  for (const auto& parameter : definition->parameters) {
    values.push_back(read_value(arguments, parameter.kind));
    if (int error = check_value(entry.name, parameter, values.back())) return error;
  }
  auto* workspace = reinterpret_cast<uint64_t*>(arguments.integer());
  auto** executor = reinterpret_cast<aclOpExecutor**>(arguments.integer());
  if (!workspace || !executor) return refuse(kNullArgument, entry.name, "the workspace size or the executor is null");
  auto call = std::make_shared<Call>(*definition, std::move(values));
  // In torch_npu's launch thread the kernel says it: an error that is returned there would cost the process its device.
  if (definition->check && !in_launch_thread()) definition->check(*call);
  *workspace = largest ? kLargestBytes : 0;
  *executor = new aclOpExecutor{std::move(call), &entry};
  if (dumping_args()) dump(*(*executor)->call);
  return 0;
}
}  // namespace
}  // namespace air_sim

// Where the assembly below continues, in C++.
extern "C" __attribute__((visibility("hidden"), used)) int air_sim_aclnn_prepare(uint64_t number, const air_sim::Registers* registers,
                                                                                 const uint64_t* stack) noexcept {
  air_sim::Entry& entry = air_sim::entries[number % air_sim::kLargest];
  try {
    return air_sim::prepare(entry, number >= air_sim::kLargest, registers, stack);
  } catch (const std::exception& error) {
    return air_sim::refuse(air_sim::kBadArgument, entry.name, error.what());
  }
}

extern "C" __attribute__((visibility("hidden"), used)) int air_sim_aclnn_launch(void*, uint64_t, aclOpExecutor* executor, aclrtStream stream) noexcept {
  if (!executor) return air_sim::kNullArgument;
  std::shared_ptr<air_sim::Call> call = std::move(executor->call);
  air_sim::Entry& entry = *executor->entry;
  delete executor;
  air_sim::count(entry);
  if (air_sim::refused(entry.name)) return air_sim::kInternal;
  return air_sim::enqueue(stream, [call] { air_sim::run(*call); }, entry.name);
}

AIR_SIM_API int aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  AIR_SIM_ENTRY;
  delete executor;
  return 0;
}

// Names of the implemented functions, one per line, for docs and tests; the text belongs to the library.
AIR_SIM_API const char* air_sim_aclnn_names() {
  static const std::string text = [] {
    std::string all;
    for (const auto& name : air_sim::defined_names()) all += name + "\n";
    return all;
  }();
  return text.c_str();
}

// Parses every definition; what is wrong with them, one line each ("" when nothing is).
AIR_SIM_API const char* air_sim_aclnn_check() {
  static thread_local std::string problems;
  problems.clear();
  for (const auto& name : air_sim::defined_names()) {
    try {
      air_sim::find_definition(name);
    } catch (const std::exception& error) {
      problems += name + ": " + error.what() + "\n";
    }
  }
  return problems.c_str();
}

#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.type air_sim_aclnn_enter,@function
air_sim_aclnn_enter:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset 6, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register 6
  subq $112, %rsp
  movq %rdi, 0(%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movsd %xmm0, 48(%rsp)
  movsd %xmm1, 56(%rsp)
  movsd %xmm2, 64(%rsp)
  movsd %xmm3, 72(%rsp)
  movsd %xmm4, 80(%rsp)
  movsd %xmm5, 88(%rsp)
  movsd %xmm6, 96(%rsp)
  movsd %xmm7, 104(%rsp)
  movl %r11d, %edi
  movq %rsp, %rsi
  leaq 16(%rbp), %rdx
  call air_sim_aclnn_prepare
  leave
  .cfi_def_cfa 7, 8
  ret
  .cfi_endproc
.size air_sim_aclnn_enter, .-air_sim_aclnn_enter
)");
#define NAME(number, name)                                                                                 \
  asm(".text\n.globl aclnn" #name "GetWorkspaceSize\n.type aclnn" #name "GetWorkspaceSize,@function\n"      \
      "aclnn" #name "GetWorkspaceSize:\n movl $" #number ", %r11d\n jmp air_sim_aclnn_enter\n"              \
      ".globl aclnn" #name "\n.type aclnn" #name ",@function\naclnn" #name ":\n jmp air_sim_aclnn_launch\n");
#define LARGEST_WORKSPACE(number, name)                                                                         \
  asm(".text\n.globl aclnn" #name "GetMaxWorkspaceSize\n.type aclnn" #name "GetMaxWorkspaceSize,@function\n"    \
      "aclnn" #name "GetMaxWorkspaceSize:\n movl $" #number " + 1048576, %r11d\n jmp air_sim_aclnn_enter\n");
#elif defined(__aarch64__)
asm(R"(
.text
.p2align 4
.type air_sim_aclnn_enter,%function
air_sim_aclnn_enter:
  stp x29, x30, [sp, #-16]!
  mov x29, sp
  sub sp, sp, #128
  stp x0, x1, [sp]
  stp x2, x3, [sp, #16]
  stp x4, x5, [sp, #32]
  stp x6, x7, [sp, #48]
  stp d0, d1, [sp, #64]
  stp d2, d3, [sp, #80]
  stp d4, d5, [sp, #96]
  stp d6, d7, [sp, #112]
  mov w0, w16
  mov x1, sp
  add x2, x29, #16
  bl air_sim_aclnn_prepare
  mov sp, x29
  ldp x29, x30, [sp], #16
  ret
.size air_sim_aclnn_enter, .-air_sim_aclnn_enter
)");
#define NAME(number, name)                                                                                 \
  asm(".text\n.globl aclnn" #name "GetWorkspaceSize\n.type aclnn" #name "GetWorkspaceSize,%function\n"      \
      "aclnn" #name "GetWorkspaceSize:\n mov w16, #" #number "\n b air_sim_aclnn_enter\n"                   \
      ".globl aclnn" #name "\n.type aclnn" #name ",%function\naclnn" #name ":\n b air_sim_aclnn_launch\n");
#define LARGEST_WORKSPACE(number, name)                                                                         \
  asm(".text\n.globl aclnn" #name "GetMaxWorkspaceSize\n.type aclnn" #name "GetMaxWorkspaceSize,%function\n"    \
      "aclnn" #name "GetMaxWorkspaceSize:\n mov w16, #" #number "\n movk w16, #16, lsl #16\n b air_sim_aclnn_enter\n");
#else
#error "air-sim knows the calling conventions of x86-64 and AArch64"
#endif
#include "names.inc"

#undef NAME
#undef LARGEST_WORKSPACE
