// Compiled graphs in files: a line of numbers, then the graph.
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "model.h"

namespace air_sim::graph_engine {
namespace {
constexpr char kCompiledMark[] = "air-sim-compiled-graph-2";

void write_shape(std::ostream& out, const Ints& shape) {
  out << ' ' << shape.size();
  for (const int64_t dim : shape) out << ' ' << dim;
}
Ints read_shape(std::istream& in) {
  size_t rank = 0;
  in >> rank;
  Ints shape(in && rank <= 64 ? rank : 0);
  for (int64_t& dim : shape) in >> dim;
  return shape;
}
}  // namespace

std::string compiled_bytes(const Model& model) {
  std::ostringstream head;
  head << kCompiledMark << ' ' << model.bytes.size() << ' ' << model.is_static << ' ' << model.sizes_from_values << ' '
       << model.inputs.size() << ' ' << model.output_shapes.size();
  for (const Op* input : model.inputs) write_shape(head, input->output_descs.at(0).shape);
  for (size_t i = 0; i < model.output_shapes.size(); ++i) {
    head << ' ' << static_cast<int>(model.output_types[i]);
    write_shape(head, model.output_shapes[i]);
  }
  head << '\n' << model.bytes;
  return head.str();
}
std::shared_ptr<Model> from_compiled_bytes(const std::string& content, const std::string& where) {
  const size_t end = content.find('\n');
  std::string mark;
  std::istringstream head(content.substr(0, end));
  size_t size = 0, arguments = 0, results = 0;
  bool is_static = false, from_values = false;
  head >> mark >> size >> is_static >> from_values >> arguments >> results;
  if (!head || end == std::string::npos || mark != kCompiledMark || content.size() - end - 1 != size)
    throw std::runtime_error(where + " is no compiled graph");
  auto model = parse_model(content.data() + end + 1, size);
  model->is_static = is_static;
  model->sizes_from_values = from_values;
  if (model->inputs.size() != arguments) throw std::runtime_error(where + " is no compiled graph");
  for (const Op* input : model->inputs) const_cast<Op*>(input)->output_descs.at(0).shape = read_shape(head);
  for (size_t i = 0; i < results && head; ++i) {
    int type = 0;
    head >> type;
    model->output_types.push_back(static_cast<at::ScalarType>(type));
    model->output_shapes.push_back(read_shape(head));
  }
  if (!head) throw std::runtime_error(where + " is no compiled graph");
  return model;
}
void write_compiled(const Model& model, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << compiled_bytes(model);
  if (!file.flush()) throw std::runtime_error("the compiled graph cannot be written to " + path);
}
std::shared_ptr<Model> read_compiled(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return nullptr;
  return from_compiled_bytes(std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()), path);
}
}  // namespace air_sim::graph_engine
