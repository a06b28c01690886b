// A graph as it arrives from TorchAir: operators with attributes, in an order in which they can run.
#pragma once
#include <ATen/ATen.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "wire.h"

namespace air_sim::graph_engine {
using Ints = std::vector<int64_t>;

// The type of four bits, in the numbering of the graph format.
constexpr int kFourBits = 28;

struct Desc {
  int type = 0;  // numbering of the graph format, not of the ge:: API
  Ints shape;
};
struct Attribute {
  int64_t integer = 0;
  float real = 0;
  std::string text;
  Ints ints;
  std::vector<float> reals;
  Desc tensor;
  std::string tensor_data;
};
// The values of an attribute, as another interface writes them.
template <class Made, class From>
Made with_values_of(const From& from) {
  Made made;
  made.integer = from.integer;
  made.real = from.real;
  made.text = from.text;
  made.ints = from.ints;
  return made;
}
struct Edge {
  std::string node;
  int output;  // -1: only an order
};
struct Model;
struct Op {
  std::string name, type;
  std::vector<Edge> inputs;
  std::vector<std::string> body_names;
  std::vector<std::shared_ptr<const Model>> bodies;  // graphs of the same file that this operator runs
  std::map<std::string, Attribute> attributes;
  std::vector<Desc> input_descs, output_descs;
};
struct Model {
  std::string bytes;
  std::vector<Op> ops;
  std::vector<const Op*> inputs;  // Data and RefData, by index
  std::vector<const Op*> order;   // everything else
  std::vector<Edge> outputs;
  bool is_static = true;
  mutable std::atomic<bool> sizes_from_values{false};  // a size of a result is only known once its operands are
  std::vector<Ints> output_shapes;  // of a static graph, once compiled
  std::vector<at::ScalarType> output_types;
};
// The number of the argument that a Data or RefData stands for.
int64_t index_of(const Op* op);
// Throws std::runtime_error for bytes that are not a graph.
std::shared_ptr<Model> parse_model(const void* data, size_t size);

// Throws std::runtime_error for a graph that cannot be compiled for this chip.
void compile(Model& model, const std::string& soc);
// Throws std::runtime_error, in the engine's words, for a graph with an operator that the chip has no program for.
void refuse_what_is_missing(const Model& model, const std::string& soc);

// A compiled graph as bytes: the graph with what its compilation found out. `where` stands in messages.
std::string compiled_bytes(const Model& model);
std::shared_ptr<Model> from_compiled_bytes(const std::string& content, const std::string& where);
// The same in a file.
void write_compiled(const Model& model, const std::string& path);
// Null where there is no such file; throws std::runtime_error for one that is broken.
std::shared_ptr<Model> read_compiled(const std::string& path);

// The two numberings of data types.
at::ScalarType type_of_graph(int type);
at::ScalarType type_of_api(int64_t type);
int api_of_type(at::ScalarType type);
int graph_of_type(at::ScalarType type);

// What a run finds out about sizes, given which inputs only a device knows.
struct Sizes {
  std::vector<bool> on_device;
  bool from_device = false;  // an operator read a size from what is computed of them
};
// Runs a graph.  `dry`: only shapes matter, nothing outside may be touched (no communication, no printing).
std::vector<at::Tensor> run(const Model& model, const std::vector<at::Tensor>& inputs, bool dry, Sizes* sizes = nullptr);
// Types of operators in the graph, and in the graphs that its operators run.
std::set<std::string> types_in(const Model& model);
// Those that have no kernel.
std::vector<std::string> missing_kernels(const Model& model);
}  // namespace air_sim::graph_engine
