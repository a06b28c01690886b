// Runs calls of the older single-operator interface with the kernels of the graph engine.
#include <air_sim/aclop.h>
#include <c10/core/InferenceMode.h>

#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
Tensor value_of(const AclopTensor& from) {
  if (!from.given) return Tensor();
  const auto options = at::TensorOptions().dtype(type_of_api(from.type));
  if (!from.data) return at::empty(from.sizes, options);
  void* data = from.host.empty() ? host_address(from.data) : const_cast<char*>(from.host.data());
  return at::from_blob(data, from.sizes, options);
}
Attribute of_aclop(const AclopAttribute& from) {
  Attribute made = with_values_of<Attribute>(from);
  made.reals = from.reals;
  return made;
}

bool has_kernel(const std::string& type) { return kernels().count(type) != 0; }

void run_call(const AclopCall& call) {
  const c10::InferenceMode guard(true);
  Op op;
  op.type = op.name = call.type;
  for (const auto& [name, value] : call.attributes) op.attributes[name] = of_aclop(value);
  for (const AclopTensor& out : call.outputs) op.output_descs.push_back({out.given ? graph_of_type(type_of_api(out.type)) : 0, out.sizes});
  Tensors inputs;
  for (const AclopTensor& in : call.inputs) inputs.push_back(value_of(in));
  const Tensors results = kernels().at(call.type)(Call{op, inputs, false});
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const Tensor target = value_of(call.outputs[i]);
    if (!target.defined() || i >= results.size() || !results[i].defined()) continue;
    TORCH_CHECK(target.numel() == results[i].numel(), "output ", i, " has shape ", target.sizes(), " but the result has shape ", results[i].sizes());
    target.copy_(results[i].reshape(target.sizes()));
  }
}

const bool registered = (set_aclop_kernels({has_kernel, run_call}), true);
}  // namespace
}  // namespace air_sim::graph_engine
