// Runs graphs: one operator after the other, values in a table.
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <unordered_map>

#include <air_sim/half.h>

#include "kernels.h"

namespace air_sim::graph_engine {
int64_t Call::integer(const char* name, int64_t otherwise) const {
  const auto found = op.attributes.find(name);
  return found == op.attributes.end() ? otherwise : found->second.integer;
}
double Call::real(const char* name, double otherwise) const {
  const auto found = op.attributes.find(name);
  return found == op.attributes.end() ? otherwise : found->second.real;
}
std::string Call::text(const char* name, const char* otherwise) const {
  const auto found = op.attributes.find(name);
  return found == op.attributes.end() ? otherwise : found->second.text;
}
Ints Call::ints(const char* name, Ints otherwise) const {
  const auto found = op.attributes.find(name);
  return found == op.attributes.end() ? otherwise : found->second.ints;
}
Ints Call::values(size_t input) const {
  decides(input);
  const Tensor t = in.at(input).to(at::kLong).contiguous().view({-1});
  return Ints(t.data_ptr<int64_t>(), t.data_ptr<int64_t>() + t.numel());
}
at::Scalar Call::number(size_t input) const {
  decides(input);
  return in.at(input).item();
}
at::optional<Tensor> Call::optional(size_t input) const {
  return given(input) ? at::optional<Tensor>(in[input]) : at::nullopt;
}
at::ScalarType Call::output_type(size_t index, at::ScalarType otherwise) const {
  const bool said = index < op.output_descs.size() && op.output_descs[index].type != 0;
  return said ? type_of_graph(op.output_descs[index].type) : otherwise;
}

const Table& kernels() {
  static const Table& all = [] () -> const Table& {
    Table& table = *new Table;
    add_math(table);
    add_functions(table);
    add_shapes(table);
    add_indexing(table);
    add_searching(table);
    add_signal(table);
    add_layers(table);
    add_recurrent(table);
    add_older(table);
    add_fused(table);
    add_by_name(table);
    add_gradients(table);
    add_sources(table);
    add_collectives(table);
    return table;
  }();
  return all;
}
std::set<std::string> types_in(const Model& model) {
  std::set<std::string> types;
  for (const Op* op : model.order) {
    types.insert(op->type);
    for (const auto& body : op->bodies) types.merge(types_in(*body));
  }
  return types;
}
std::vector<std::string> missing_kernels(const Model& model) {
  std::vector<std::string> missing;
  for (const std::string& type : types_in(model))
    if (!kernels().count(type)) missing.push_back(type);
  return missing;
}

// A dry run, in which numbers are made up: where they lead outside of a table, zeros, which have a place in every one, take
// the place of those that are no sizes.
Tensors foreseen(const Kernel& kernel, const Call& call) {
  try {
    return kernel(call);
  } catch (const std::exception&) {
    Call other = call;
    std::set<size_t> replaced;
    for (size_t i = 0; i < other.in.size(); ++i) {
      if (!call.given(i) || call.deciding.count(i) || !at::isIntegralType(call.in[i].scalar_type(), /*includeBool=*/false)) continue;
      other.in[i] = at::zeros_like(call.in[i]);
      replaced.insert(i);
    }
    if (replaced.empty()) throw;
    const Tensors results = kernel(other);
    for (const size_t i : other.deciding)
      if (replaced.count(i)) throw;
    return results;
  }
}

// A result of half precision stays one where the kernel computes in single precision.
Tensors computed(const Kernel& kernel, const Call& call, bool is_foreseen) {
  try {
    return is_foreseen ? foreseen(kernel, call) : kernel(call);
  } catch (const std::exception& error) {
    const auto half = std::find_if(call.in.begin(), call.in.end(), is_half);
    if (half == call.in.end() || !lacks_half(error)) throw;
    Call wide = call;
    for (Tensor& t : wide.in) t = widened(t);
    Tensors results = is_foreseen ? foreseen(kernel, wide) : kernel(wide);
    for (Tensor& t : results)
      if (t.defined() && t.scalar_type() == at::kFloat) t = t.to(half->scalar_type());
    return results;
  }
}

// Operators whose result says nothing of the numbers in their operand.
const std::set<std::string> kOfShapes{"Rank", "Shape", "ShapeN", "Size"};

std::vector<Tensor> run(const Model& model, const std::vector<Tensor>& inputs, bool dry, Sizes* sizes) {
  const c10::InferenceMode guard(true);
  std::unordered_map<std::string, Tensors> values;
  std::set<std::string> on_device;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    values[model.inputs[i]->name] = {inputs.at(i)};
    if (sizes && sizes->on_device.at(i)) on_device.insert(model.inputs[i]->name);
  }
  const auto value = [&](const Edge& edge) { return values.at(edge.node).at(edge.output); };
  std::unordered_map<std::string, size_t> readers;
  for (const Op* op : model.order)
    for (const Edge& edge : op->inputs) ++readers[edge.node];
  for (const Edge& edge : model.outputs) ++readers[edge.node];
  for (const Op* op : model.order) {
    Call call{*op, {}, dry, sizes};
    for (const Edge& edge : op->inputs) {
      if (edge.node.empty())
        call.in.push_back(Tensor());
      else if (edge.output >= 0)
        call.in.push_back(value(edge));
      else
        continue;
      call.on_device.push_back(on_device.count(edge.node) != 0);
    }
    const auto& known = call.on_device;
    if (std::find(known.begin(), known.end(), true) != known.end() && !kOfShapes.count(op->type)) on_device.insert(op->name);
    try {
      const Kernel& kernel = kernels().at(op->type);
      values[op->name] = computed(kernel, call, dry && sizes);
    } catch (const std::exception& problem) {
      throw std::runtime_error(op->type + " " + op->name + ": " + problem.what());
    }
    for (const Edge& edge : op->inputs)  // memory is needed for what is still to be read
      if (--readers[edge.node] == 0) values.erase(edge.node);
    if (readers[op->name] == 0) values.erase(op->name);
  }
  std::vector<Tensor> results;
  for (const Edge& edge : model.outputs) results.push_back(value(edge));
  return results;
}
}  // namespace air_sim::graph_engine
