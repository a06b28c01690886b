// Arguments of a call: from the registers of the C ABI to tensors, and results back.
#include "call.h"
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <air_sim/half.h>
#include <air_sim/runtime.h>
#include <cstdlib>
#include <cstring>

namespace air_sim {
namespace {
struct TypePair {
  aclDataType acl;
  at::ScalarType aten;
};
const TypePair kTypes[] = {
    {ACL_FLOAT, at::kFloat},          {ACL_FLOAT16, at::kHalf},   {ACL_BF16, at::kBFloat16},
    {ACL_DOUBLE, at::kDouble},        {ACL_INT8, at::kChar},      {ACL_UINT8, at::kByte},
    {ACL_INT16, at::kShort},          {ACL_INT32, at::kInt},      {ACL_INT64, at::kLong},
    {ACL_BOOL, at::kBool},            {ACL_UINT16, at::kUInt16},  {ACL_UINT32, at::kUInt32},
    {ACL_UINT64, at::kUInt64},        {ACL_COMPLEX64, at::kComplexFloat},
    {ACL_COMPLEX128, at::kComplexDouble}, {ACL_COMPLEX32, at::kComplexHalf},
    {ACL_FLOAT8_E5M2, at::kFloat8_e5m2}, {ACL_FLOAT8_E4M3FN, at::kFloat8_e4m3fn},
    {ACL_FLOAT8_E8M0, at::kFloat8_e8m0fnu},
};

std::vector<int64_t> without_ones(at::IntArrayRef sizes) {
  std::vector<int64_t> kept;
  for (int64_t size : sizes)
    if (size != 1) kept.push_back(size);
  return kept;
}
}  // namespace

bool has_dtype(aclDataType type) {
  for (const auto& pair : kTypes)
    if (pair.acl == type) return true;
  return false;
}

at::ScalarType dtype_of(aclDataType type) {
  for (const auto& pair : kTypes)
    if (pair.acl == type) return pair.aten;
  TORCH_CHECK(false, "aclDataType ", static_cast<int>(type), " has no counterpart in libtorch");
}

at::Tensor tensor_of(const aclTensor* t) {
  if (!t) return at::Tensor();
  if (t->value.defined()) return t->value;
  auto options = at::TensorOptions().dtype(dtype_of(t->type)).device(at::kCPU);
  int64_t count = 1;
  for (int64_t size : t->sizes) count *= size;
  if (count == 0 || !t->data) return at::empty_strided(t->sizes, t->strides, options);
  char* base = static_cast<char*>(host_address(t->data));
  return at::from_blob(base + t->offset * static_cast<int64_t>(options.dtype().itemsize()), t->sizes, t->strides, options);
}

static bool counted(char kind) { return strchr("TLSRIFB", kind) != nullptr; }

Call::Call(const Definition& d, std::vector<Value> v) : definition(d), values(std::move(v)) {
  for (size_t i = 0; i < values.size(); ++i)
    if (counted(definition.parameters[i].kind)) retain(static_cast<const Object*>(values[i].pointer));
    else if (definition.parameters[i].kind == 's' && values[i].pointer) values[i].pointer = strdup(static_cast<const char*>(values[i].pointer));
}

Call::~Call() {
  for (size_t i = 0; i < values.size(); ++i)
    if (counted(definition.parameters[i].kind)) release(static_cast<const Object*>(values[i].pointer));
    else if (definition.parameters[i].kind == 's') free(const_cast<void*>(values[i].pointer));
}

size_t Call::index(const char* name) const {
  for (size_t i = 0; i < definition.parameters.size(); ++i)
    if (definition.parameters[i].name == name) return i;
  TORCH_CHECK(false, definition.name, " has no parameter ", name);
}

bool Call::knows(const char* name) const {
  for (const auto& parameter : definition.parameters)
    if (parameter.name == name) return true;
  return false;
}
bool Call::has(const char* name) const { return values[index(name)].pointer != nullptr; }
void Call::compute() {
  try {
    definition.kernel(*this);
  } catch (const std::exception& error) {
    if (wide || !lacks_half(error)) throw;
    wide = true;
    definition.kernel(*this);
  }
}

at::Tensor Call::tensor(const char* name) const {
  const size_t i = index(name);
  const at::Tensor given = tensor_of(as<aclTensor>(values[i]));
  return wide && !definition.parameters[i].written ? widened(given) : given;
}
const std::vector<int64_t>& Call::sizes(const char* name) const { return as<aclTensor>(values[index(name)])->sizes; }
std::vector<std::vector<int64_t>> Call::list_sizes(const char* name) const {
  std::vector<std::vector<int64_t>> all;
  for (auto* item : as<aclTensorList>(values[index(name)])->values) all.push_back(item->sizes);
  return all;
}
std::optional<at::Tensor> Call::optional(const char* name) const {
  return has(name) ? std::optional<at::Tensor>(tensor(name)) : std::nullopt;
}
std::vector<at::Tensor> Call::tensors(const char* name) const {
  std::vector<at::Tensor> result;
  if (auto* list = as<aclTensorList>(values[index(name)]))
    for (auto* item : list->values) result.push_back(tensor_of(item));
  return result;
}
c10::Scalar Call::scalar(const char* name) const {
  auto* scalar = as<aclScalar>(values[index(name)]);
  TORCH_CHECK(scalar, name, " is null");
  return scalar->value;
}
std::vector<c10::Scalar> Call::scalars(const char* name) const {
  std::vector<c10::Scalar> result;
  if (auto* list = as<aclScalarList>(values[index(name)]))
    for (auto* item : list->values) result.push_back(item->value);
  return result;
}
std::vector<int64_t> Call::ints(const char* name) const {
  auto* array = as<aclIntArray>(values[index(name)]);
  return array ? array->values : std::vector<int64_t>();
}
std::vector<double> Call::floats(const char* name) const {
  auto* array = as<aclFloatArray>(values[index(name)]);
  return array ? std::vector<double>(array->values.begin(), array->values.end()) : std::vector<double>();
}
std::vector<bool> Call::bools(const char* name) const {
  auto* array = as<aclBoolArray>(values[index(name)]);
  return array ? std::vector<bool>(array->values.begin(), array->values.end()) : std::vector<bool>();
}
int64_t Call::integer(const char* name) const { return values[index(name)].integer; }
double Call::real(const char* name) const { return values[index(name)].real; }
std::string Call::text(const char* name) const {
  auto* text = static_cast<const char*>(values[index(name)].pointer);
  return text ? text : "";
}
at::ScalarType Call::dtype(const char* name) const { return dtype_of(static_cast<aclDataType>(integer(name))); }

static void copy_into(const aclTensor* out, const std::string& name, const at::Tensor& result) {
  at::Tensor target = tensor_of(out);
  if (out->receives) {
    const bool fits = !out->sized || target.sizes() == result.sizes() || target.numel() != result.numel();
    const_cast<aclTensor*>(out)->value = (fits ? result : result.reshape(target.sizes())).to(target.scalar_type());
    return;
  }
  // An output that the caller does not want is an empty tensor; one that the operator does not give has no elements.
  bool absent = result.dim() == 1 && result.numel() == 0;
  if (target.numel() == 0 || absent) return;
  if (target.sizes() == result.sizes()) {
    target.copy_(result);
    return;
  }
  TORCH_CHECK(without_ones(target.sizes()) == without_ones(result.sizes()), name, " has shape ", target.sizes(),
              " but the result has shape ", result.sizes());
  target.copy_(result.reshape(target.sizes()));
}

void Call::write_at(size_t i, const at::Tensor& result) const {
  auto* out = as<aclTensor>(values[i]);
  if (out && result.defined()) copy_into(out, definition.parameters[i].name, result);
}

void Call::write_list_at(size_t i, const std::vector<at::Tensor>& results) const {
  auto* list = as<aclTensorList>(values[i]);
  if (!list) return;
  const std::string& name = definition.parameters[i].name;
  TORCH_CHECK(list->values.size() == results.size(), name, " has ", list->values.size(), " tensors for ", results.size(), " results");
  for (size_t k = 0; k < results.size(); ++k) copy_into(list->values[k], name, results[k]);
}

void Call::write(const char* name, const at::Tensor& result) const { write_at(index(name), result); }

void Call::write_resized(const char* name, const at::Tensor& result) const {
  size_t i = index(name);
  auto* out = const_cast<aclTensor*>(as<aclTensor>(values[i]));
  if (!out) return;
  if (out->receives) return copy_into(out, name, result);
  int64_t room = 1;
  for (int64_t size : out->sizes) room *= size;
  TORCH_CHECK(result.numel() <= room, name, " has room for ", room, " elements but the result has ", result.numel());
  out->sizes = result.sizes().vec();
  out->strides.assign(out->sizes.size(), 1);
  for (int64_t d = result.dim() - 2; d >= 0; --d) out->strides[d] = out->strides[d + 1] * out->sizes[d + 1];
  tensor_of(out).copy_(result);
}
}  // namespace air_sim
