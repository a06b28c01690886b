// Calls of an aclnn function from inside this process, with tensors in the place of addresses.
#include <air_sim/operators.h>

#include "kernels.h"

namespace air_sim {
namespace {
// Objects of one call; the call holds what it reads.
class Objects {
 public:
  ~Objects() {
    for (const Object* object : made_) release(object);
  }
  aclTensor* tensor(const Tensor& value) {
    auto* made = keep(new aclTensor);
    made->value = value;
    made->sizes = value.sizes().vec();
    return made;
  }
  aclTensor* result(const Expected& expected) {
    auto* made = keep(new aclTensor);
    made->value = at::empty(expected.sized ? at::IntArrayRef(expected.sizes) : at::IntArrayRef({0}), expected.type);
    made->receives = true;
    made->sized = expected.sized;
    return made;
  }
  const Object* list(const aclTensor* one) {
    retain(one);
    return keep(new aclTensorList(&one, 1));
  }
  const void* object(const Parameter& wanted, const Argument& given) {
    switch (wanted.kind) {
      case 'T': return given.tensor.defined() ? tensor(given.tensor) : nullptr;
      case 'L': {
        if (!given.tensor.defined()) return nullptr;
        return list(tensor(given.tensor));
      }
      case 'I': {
        const std::vector<int64_t> values = given.tensor.defined() ? numbers(given.tensor) : given.ints;
        return values.empty() ? nullptr : keep(new aclIntArray(values.data(), values.size()));
      }
      case 's': return given.text.c_str();
      default: TORCH_CHECK(false, "a parameter of kind ", wanted.kind, " (", wanted.name, ") cannot be given by name");
    }
  }

 private:
  template <class T>
  T* keep(T* object) {
    made_.push_back(object);
    return object;
  }
  static std::vector<int64_t> numbers(const Tensor& values) {
    const Tensor flat = values.to(at::kLong).contiguous().view({-1});
    return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
  }
  std::vector<const Object*> made_;
};

Value value_of(const Parameter& parameter, const Argument& given, Objects& objects) {
  Value value;
  if (strchr("ihcbD", parameter.kind)) value.integer = given.integer;
  else if (strchr("df", parameter.kind)) value.real = given.real;
  else value.pointer = objects.object(parameter, given);
  TORCH_CHECK(value.pointer || parameter.nullable || parameter.written || !strchr("TLIs", parameter.kind), parameter.name,
              " is required");
  return value;
}
}  // namespace

std::map<std::string, Tensor> run_operator(const std::string& name, const std::map<std::string, Argument>& given,
                                           const std::map<std::string, Expected>& expected) {
  const Definition* definition = find_definition("aclnn" + name);
  TORCH_CHECK(definition, "air-sim has no aclnn", name);
  Objects objects;
  std::vector<Value> values;
  std::map<std::string, aclTensor*> results;
  size_t used = 0;
  for (const Parameter& parameter : definition->parameters) {
    const auto found = given.find(parameter.name);
    const auto result = expected.find(parameter.name);
    if (found != given.end()) {
      values.push_back(value_of(parameter, found->second, objects));
      ++used;
      continue;
    }
    Value value;
    if (result != expected.end()) {
      ++used;
      aclTensor* made = results[parameter.name] = objects.result(result->second);
      value.pointer = parameter.kind == 'L' ? objects.list(made) : made;
    }
    TORCH_CHECK(value.pointer || parameter.nullable || parameter.written, "aclnn", name, " needs ", parameter.name);
    values.push_back(value);
  }
  TORCH_CHECK(used == given.size() + expected.size(), "aclnn", name, " has not all of the parameters it is given");
  Call call(*definition, std::move(values));
  call.compute();
  std::map<std::string, Tensor> made;
  for (const auto& [parameter, tensor] : results) made[parameter] = tensor->value;
  return made;
}
}  // namespace air_sim
