// The dump of operator arguments (aclopStartDumpArgs) that static kernel compilation starts from: one JSON file per
// distinct call, in three folders below the given path:
//   <pid>            the operators the program asked for
//   <pid>_debug      every operator, also those that cannot be compiled for fixed shapes
//   <pid>_opcompile  what op_compiler takes
#include <acl/acl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

#include "air_sim/runtime.h"
#include "status.h"

namespace air_sim {
namespace {
constexpr size_t kLongestName = 180;
constexpr uint32_t kAicoreArguments = 1;

struct Dump {
  std::mutex m;
  std::atomic<bool> on{false};
  std::string path;
};
Dump& dump() {
  static Dump& it = *new Dump;
  return it;
}

const char* type_name(int type) {
  switch (type) {
    case ACL_FLOAT: return "float32";
    case ACL_FLOAT16: return "float16";
    case ACL_BF16: return "bfloat16";
    case ACL_DOUBLE: return "double";
    case ACL_INT8: return "int8";
    case ACL_UINT8: return "uint8";
    case ACL_INT16: return "int16";
    case ACL_INT32: return "int32";
    case ACL_INT64: return "int64";
    case ACL_BOOL: return "bool";
    case ACL_COMPLEX64: return "complex64";
    case ACL_COMPLEX128: return "complex128";
    default: return "undefined";
  }
}
const char* format_name(int format) {
  switch (format) {
    case ACL_FORMAT_NCHW: return "NCHW";
    case ACL_FORMAT_NHWC: return "NHWC";
    case ACL_FORMAT_FRACTAL_NZ: return "FRACTAL_NZ";
    case ACL_FORMAT_NC1HWC0: return "NC1HWC0";
    default: return "ND";
  }
}
// Operators whose output shape depends on data cannot be compiled for it.
bool has_fixed_shapes(const std::string& op) {
  static const std::set<std::string> dynamic = {"Nonzero", "NonzeroV2", "MaskedSelect", "Unique", "Unique2",
                                                "UniqueDim", "UniqueConsecutive", "RepeatInterleave"};
  return dynamic.count(op) == 0;
}
std::string list(const std::vector<int64_t>& values, const char* separator) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i ? separator : "") + std::to_string(values[i]);
  return text;
}
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}
std::string tensor_json(const OpArg& a) {
  return "{\"dtype\":\"" + std::string(type_name(a.type)) + "\",\"format\":\"" + format_name(a.format) + "\",\"shape\":[" +
         list(a.sizes, ",") + "]}";
}
std::string attribute_json(const OpArg& a) {
  std::ostringstream out;
  switch (a.kind) {
    case OpArg::kInt: out << "{\"type\":\"int\",\"value\":" << a.integer << "}"; break;
    case OpArg::kBool: out << "{\"type\":\"bool\",\"value\":" << (a.integer ? "true" : "false") << "}"; break;
    case OpArg::kFloat: out << "{\"type\":\"float\",\"value\":" << a.real << "}"; break;
    case OpArg::kScalar: out << "{\"type\":\"scalar\",\"dtype\":\"" << type_name(a.type) << "\",\"value\":" << a.real << "}"; break;
    case OpArg::kString: out << "{\"type\":\"string\",\"value\":" << quoted(a.text) << "}"; break;
    case OpArg::kIntList: out << "{\"type\":\"list_int\",\"value\":[" << list(a.sizes, ",") << "]}"; break;
    default: out << "null";
  }
  return out.str();
}

// The file of one call: its name carries types, formats and shapes, as op_compiler's users expect to read them.
struct Call {
  std::string name, json;
  Call(const std::string& op, const std::vector<OpArg>& args) {
    std::string inputs, outputs, attributes;
    name = op;
    for (const OpArg& arg : args) add(arg, inputs, outputs, attributes);
    json = "{\"op\":" + quoted(op) + ",\"inputs\":[" + inputs + "],\"outputs\":[" + outputs + "],\"attrs\":[" + attributes + "]}\n";
    if (name.size() > kLongestName) name.resize(kLongestName);
    char digest[32];
    snprintf(digest, sizeof digest, "_%016zx", std::hash<std::string>()(json));
    name += digest;
  }
  void add(const OpArg& arg, std::string& inputs, std::string& outputs, std::string& attributes) {
    if (arg.kind == OpArg::kTensorList) {
      for (const OpArg& item : arg.items) add(item, inputs, outputs, attributes);
      return;
    }
    const bool tensor = arg.kind == OpArg::kTensor;
    std::string& to = !tensor ? attributes : arg.output ? outputs : inputs;
    to += (to.empty() ? "" : ",") + (tensor ? tensor_json(arg) : attribute_json(arg));
    if (tensor) name += std::string("_") + type_name(arg.type) + "_" + format_name(arg.format) + "_" + list(arg.sizes, "_");
  }
};
void write_file(const std::string& folder, const Call& call) {
  mkdir(folder.c_str(), 0755);
  const std::string path = folder + "/" + call.name + ".json";
  if (access(path.c_str(), F_OK) == 0) return;
  FILE* file = fopen(path.c_str(), "w");
  if (!file) {
    set_error("cannot write %s", path.c_str());
    return;
  }
  fputs(call.json.c_str(), file);
  fclose(file);
}
}  // namespace

bool dumping_args() { return dump().on.load(std::memory_order_acquire); }

void dump_args(const char* function, const std::vector<OpArg>& args) {
  if (!dumping_args()) return;
  const std::string name = function;
  const std::string op = name.rfind("aclnn", 0) == 0 ? name.substr(5) : name;
  const Call call(op, args);
  std::lock_guard<std::mutex> lock(dump().m);
  const std::string base = dump().path + "/" + std::to_string(getpid());
  write_file(base, call);
  write_file(base + "_debug", call);
  if (has_fixed_shapes(op)) write_file(base + "_opcompile", call);
}
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclopStartDumpArgs(uint32_t type, const char* path) {
  AIR_SIM_REFUSABLE;
  if (type != kAicoreArguments) return fail(ACL_ERROR_RT_PARAM_INVALID, "dump type %u is not known", type);
  struct stat info;
  if (!path || stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
    return fail(ACL_ERROR_RT_FILE_OPEN, "%s is not a folder that operator arguments could be written to", path ? path : "(null)");
  std::lock_guard<std::mutex> lock(dump().m);
  dump().path = path;
  dump().on = true;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclopStopDumpArgs(uint32_t type) {
  AIR_SIM_REFUSABLE;
  if (type != kAicoreArguments) return fail(ACL_ERROR_RT_PARAM_INVALID, "dump type %u is not known", type);
  dump().on = false;
  return ACL_SUCCESS;
}
