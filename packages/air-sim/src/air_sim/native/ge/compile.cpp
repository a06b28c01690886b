// Compiles a graph: every operator has a kernel, and the sizes of the results are found out by running it dry.
#include <algorithm>
#include <set>
#include <stdexcept>

#include "model.h"

namespace air_sim::graph_engine {
namespace {
// Whether a shape of the results follows from the values of an input: sizes that are only known when the graph runs. The
// results are those of other numbers than `number`.
bool depends_on_values(const Model& model, std::vector<at::Tensor> inputs, const std::vector<at::Tensor>& results,
                       int64_t number) {
  bool has_numbers = false;
  for (at::Tensor& t : inputs) {
    if (!c10::isIntegralType(t.scalar_type(), /*includeBool=*/false)) continue;
    has_numbers = true;
    t = at::full_like(t, number);
  }
  if (!has_numbers) return false;
  Sizes sizes{std::vector<bool>(inputs.size(), false)};
  const auto others = run(model, inputs, true, &sizes);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].sizes() != others[i].sizes()) return true;
  return false;
}

const std::set<std::string> kCounting{"NonZero", "MaskedSelect", "UniqueWithCountsAndSorting", "UniqueConsecutive",
                                      "RepeatInterleave"};

// Whether a choice between graphs decides a size: the graph leaves it open.
bool chooses_sizes(const Model& model) {
  for (const auto* op : model.order) {
    for (const auto& body : op->bodies)
      if (chooses_sizes(*body)) return true;
    if (op->bodies.empty()) continue;
    for (const auto& desc : op->output_descs)
      for (const int64_t dim : desc.shape)
        if (dim < 0) return true;
  }
  return false;
}
}  // namespace

void compile(Model& model, const std::string& soc) {
  refuse_what_is_missing(model, soc);
  std::string missing;
  for (const std::string& type : missing_kernels(model)) missing += " " + type;
  if (!missing.empty())
    throw std::runtime_error("air-sim has no kernel for:" + missing + " (kernels are rows of native/ge/kernels_*.cpp)");
  bool counts = chooses_sizes(model);
  for (const std::string& type : types_in(model)) counts |= kCounting.count(type) != 0;
  model.sizes_from_values = counts;
  model.is_static = !model.sizes_from_values;
  std::vector<at::Tensor> inputs;
  for (const auto* data : model.inputs) {
    const auto& desc = data->output_descs.at(0);
    for (const int64_t dim : desc.shape) model.is_static &= dim >= 0;
    if (model.is_static) inputs.push_back(at::zeros(desc.shape, type_of_graph(desc.type)));
  }
  if (!model.is_static) return;
  std::vector<at::Tensor> results;
  const auto tried = [&](int64_t number) {
    Sizes sizes;
    for (at::Tensor& t : inputs) {
      t.fill_(number);
      sizes.on_device.push_back(!c10::isIntegralType(t.scalar_type(), /*includeBool=*/false));
    }
    results = run(model, inputs, true, &sizes);
    model.sizes_from_values = sizes.from_device || depends_on_values(model, inputs, results, number + 1);
  };
  // Numbers made up here lead outside of a table, divide by nothing, or stand for sizes that do not fit; a call brings others.
  const bool is_made_up = std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) {
    return at::isIntegralType(t.scalar_type(), /*includeBool=*/true);
  });
  try {
    tried(0);
  } catch (const std::exception&) {
    if (!is_made_up) throw;
    try {
      tried(1);
    } catch (const std::exception&) {
      model.sizes_from_values = true;
    }
  }
  model.is_static = !model.sizes_from_values;
  for (const at::Tensor& t : results) {
    if (!model.is_static) break;
    model.output_shapes.push_back(t.sizes().vec());
    model.output_types.push_back(t.scalar_type());
  }
}
}  // namespace air_sim::graph_engine
