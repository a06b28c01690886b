// Compiled graphs in files: a line of numbers, then the graph.
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "model.h"

namespace air_sim::graph_engine {
namespace {
constexpr char kMark[] = "air-sim-compiled-graph-1";
}
void write_compiled(const Model& model, const std::string& path) {
  std::ostringstream head;
  head << kMark << ' ' << model.bytes.size() << ' ' << model.is_static << ' ' << model.sizes_from_values << ' '
       << model.output_shapes.size();
  for (size_t i = 0; i < model.output_shapes.size(); ++i) {
    head << ' ' << static_cast<int>(model.output_types[i]) << ' ' << model.output_shapes[i].size();
    for (const int64_t dim : model.output_shapes[i]) head << ' ' << dim;
  }
  std::ofstream file(path, std::ios::binary);
  file << head.str() << '\n' << model.bytes;
  if (!file.flush()) throw std::runtime_error("the compiled graph cannot be written to " + path);
}
std::shared_ptr<Model> read_compiled(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return nullptr;
  std::string line, mark;
  std::getline(file, line);
  std::istringstream head(line);
  size_t size = 0, results = 0;
  bool is_static = false, from_values = false;
  head >> mark >> size >> is_static >> from_values >> results;
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!head || mark != kMark || bytes.size() != size) throw std::runtime_error(path + " is no compiled graph");
  auto model = parse_model(bytes.data(), bytes.size());
  model->is_static = is_static;
  model->sizes_from_values = from_values;
  for (size_t i = 0; i < results; ++i) {
    int type = 0;
    size_t rank = 0;
    head >> type >> rank;
    Ints shape(head ? rank : 0);
    for (int64_t& dim : shape) head >> dim;
    model->output_types.push_back(static_cast<at::ScalarType>(type));
    model->output_shapes.push_back(shape);
  }
  if (!head) throw std::runtime_error(path + " is no compiled graph");
  return model;
}
}  // namespace air_sim::graph_engine
