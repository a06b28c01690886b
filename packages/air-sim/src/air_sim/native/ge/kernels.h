// Kernels of the graph engine: a function of an operator's inputs and attributes, on libtorch's CPU kernels.
#pragma once
#include <functional>
#include <set>

#include "model.h"

namespace air_sim::graph_engine {
using at::Tensor;
using Tensors = std::vector<Tensor>;

// One call: inputs that are missing are undefined tensors.
struct Call {
  const Op& op;
  Tensors in;
  bool dry;
  Sizes* sizes = nullptr;
  std::vector<bool> on_device = {};  // of each input, where `sizes` is asked for
  mutable std::set<size_t> deciding = {};  // the inputs whose numbers were read as sizes
  bool has(const char* name) const { return op.attributes.count(name) != 0; }
  int64_t integer(const char* name, int64_t otherwise = 0) const;
  double real(const char* name, double otherwise = 0) const;
  std::string text(const char* name, const char* otherwise = "") const;
  Ints ints(const char* name, Ints otherwise = {}) const;
  // The values of a small integer tensor: shapes, axes, bounds.
  Ints values(size_t input) const;
  int64_t value(size_t input) const { return values(input).at(0); }
  // One number that decides a size.
  at::Scalar number(size_t input) const;
  void decides(size_t input) const {
    deciding.insert(input);
    if (sizes && on_device.at(input)) sizes->from_device = true;
  }
  bool given(size_t input) const { return input < in.size() && in[input].defined(); }
  at::optional<Tensor> optional(size_t input) const;
  // The type the graph says output `index` has, or `otherwise` when it does not say.
  at::ScalarType output_type(size_t index, at::ScalarType otherwise) const;
  bool gives_four_bits(size_t index) const { return index < op.output_descs.size() && op.output_descs[index].type == kFourBits; }
};
using Kernel = std::function<Tensors(const Call&)>;
using Table = std::map<std::string, Kernel>;
const Table& kernels();

void add_math(Table& table);
void add_functions(Table& table);
void add_shapes(Table& table);
void add_indexing(Table& table);
void add_searching(Table& table);
void add_signal(Table& table);
void add_layers(Table& table);
void add_recurrent(Table& table);
void add_older(Table& table);
void add_fused(Table& table);
void add_by_name(Table& table);
void add_gradients(Table& table);
void add_sources(Table& table);
void add_collectives(Table& table);
}  // namespace air_sim::graph_engine

// A row of a table: one expression that gives a tensor; `c` is the call, `x` its inputs.
#define AIR_SIM_GE_OP(type, ...) \
  table[#type] = [](const Call& c) -> Tensors { [[maybe_unused]] const auto& x = c.in; return {__VA_ARGS__}; }
// A row whose expression gives all tensors at once.
#define AIR_SIM_GE_OPS(type, ...) \
  table[#type] = [](const Call& c) -> Tensors { [[maybe_unused]] const auto& x = c.in; return __VA_ARGS__; }
