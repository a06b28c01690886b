// One call of an aclnn function: its arguments by name, and how a kernel reads and writes them.
//
// A definition is one line of text, `Name(kind name, ...)`, followed by `: program` (program.h) or given to a C++ kernel.
// Kinds: T tensor, L tensor list, S scalar, R scalar list, I int array, F float array, B bool array, i int64, h int32,
// c int8, b bool, d double, f float, D data type, s string, p any pointer.  `?` after the kind: may be null;  `!`: the
// kernel writes it (and it may be null).
#pragma once
#include "objects.h"
#include <ATen/core/Tensor.h>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace air_sim {
struct Parameter {
  char kind;
  bool nullable, written;
  std::string name;
};

struct Value {
  union {
    int64_t integer = 0;
    double real;
    const void* pointer;
  };
};
template <class T>
const T* as(const Value& value) {
  return static_cast<const T*>(static_cast<const Object*>(value.pointer));
}

class Call;
using Kernel = std::function<void(Call&)>;
using ShapeCheck = std::function<void(const Call&)>;

struct Definition {
  std::string name;  // with the aclnn prefix
  std::vector<Parameter> parameters;
  Kernel kernel;
  ShapeCheck check;  // asked before a launch; may be none
};

at::ScalarType dtype_of(aclDataType type);
bool has_dtype(aclDataType type);
at::Tensor tensor_of(const aclTensor* tensor);

class Call {
 public:
  Call(const Definition& definition, std::vector<Value> values);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Definition& definition;
  std::vector<Value> values;

  void compute();                                                    // runs the kernel of the definition

  bool knows(const char* name) const;                                // the definition has such a parameter
  bool has(const char* name) const;                                  // the pointer is not null
  at::Tensor tensor(const char* name) const;                         // undefined when null
  const std::vector<int64_t>& sizes(const char* name) const;         // of a tensor that is there
  std::vector<std::vector<int64_t>> list_sizes(const char* name) const;
  std::optional<at::Tensor> optional(const char* name) const;
  std::vector<at::Tensor> tensors(const char* name) const;
  c10::Scalar scalar(const char* name) const;
  std::vector<c10::Scalar> scalars(const char* name) const;
  std::vector<int64_t> ints(const char* name) const;
  std::vector<double> floats(const char* name) const;
  std::vector<bool> bools(const char* name) const;
  int64_t integer(const char* name) const;                           // i, h, c, b
  bool flag(const char* name) const { return integer(name) != 0; }
  double real(const char* name) const;                               // d, f
  std::string text(const char* name) const;                          // "" when null
  at::ScalarType dtype(const char* name) const;

  // Copies a result into an output (nothing happens when the caller passed null); the shapes must agree.
  void write(const char* name, const at::Tensor& result) const;
  // For outputs whose size is only known now: the caller reads it with aclGetViewShape.
  void write_resized(const char* name, const at::Tensor& result) const;

  void write_at(size_t index, const at::Tensor& result) const;
  void write_list_at(size_t index, const std::vector<at::Tensor>& results) const;

 private:
  size_t index(const char* name) const;
  bool wide = false;                                                 // a kernel reads half precision as single precision
};

// Definitions written in a source file: `static const Family family({{"Name(T a, T! out)", kernel}, ...});`
struct Written {
  const char* text;
  void (*kernel)(Call&);
};
struct Family {
  Family(std::initializer_list<Written> written);
  Family(const char* const* rows, size_t count);
};
#define AIR_SIM_ROWS(name, ...)                          \
  static const char* const name##_rows[] = {__VA_ARGS__}; \
  static const air_sim::Family name(name##_rows, sizeof(name##_rows) / sizeof(name##_rows[0]))

// The definition of an aclnn function, or null.  Parsed at the first call.
const Definition* find_definition(const std::string& name);
std::vector<std::string> defined_names();
}  // namespace air_sim
