// Offline models (.om): what the atc program writes and the aclmdl functions load. A line with the chip and a sum of the
// rest, then the compiled graph.
#include "offline.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace air_sim::graph_engine {
namespace {
constexpr char kOfflineMark[] = "air-sim-offline-model-1";

// FNV-1a, to notice a file that was cut or edited.
uint64_t sum_of(const char* data, size_t size) {
  uint64_t sum = 14695981039346656037ull;
  for (size_t i = 0; i < size; ++i) sum = (sum ^ static_cast<uint8_t>(data[i])) * 1099511628211ull;
  return sum;
}
std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
}  // namespace

void set_input_sizes(Model& model, const std::string& text) {
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    const size_t colon = part.rfind(':');
    if (colon == std::string::npos) throw std::runtime_error("input_shape " + part + ": write name:size,size");
    Op* found = nullptr;
    for (const Op* input : model.inputs)
      if (input->name == part.substr(0, colon)) found = const_cast<Op*>(input);
    if (!found) throw std::runtime_error("input_shape names " + part.substr(0, colon) + ", which the model has no input of");
    Ints shape;
    std::istringstream sizes(part.substr(colon + 1));
    for (std::string size; std::getline(sizes, size, ',');) {
      char* end = nullptr;
      shape.push_back(std::strtoll(size.c_str(), &end, 10));
      if (size.empty() || *end || shape.back() < 0)
        throw std::runtime_error("input_shape " + part + ": '" + size + "' is no size (sizes of a range are not compiled here)");
    }
    const Ints& has = found->output_descs.at(0).shape;
    bool fits = shape.size() == has.size();
    for (size_t i = 0; fits && i < has.size(); ++i) fits = has[i] < 0 || has[i] == shape[i];
    if (!fits) throw std::runtime_error("input_shape " + part + " does not fit the input of the model");
    found->output_descs.at(0).shape = shape;
  }
}
void write_offline(const Model& model, const std::string& soc, const std::string& path) {
  const std::string content = compiled_bytes(model), partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary);
  file << kOfflineMark << ' ' << soc << ' ' << content.size() << ' ' << sum_of(content.data(), content.size()) << '\n' << content;
  file.close();
  if (!file || std::rename(partial.c_str(), path.c_str()) != 0) {
    std::remove(partial.c_str());
    throw std::runtime_error("the offline model cannot be written to " + path);
  }
}
std::shared_ptr<Model> read_offline(const std::string& path, const std::string& soc) {
  const std::string all = read_all(path);
  const size_t end = all.find('\n');
  std::istringstream head(all.substr(0, end));
  std::string mark, chip;
  size_t size = 0;
  uint64_t sum = 0;
  head >> mark >> chip >> size >> sum;
  if (!head || end == std::string::npos || mark != kOfflineMark) throw std::runtime_error(path + " is no offline model");
  const std::string content = all.substr(end + 1);
  if (content.size() != size) throw std::runtime_error(path + " is cut: it has " + std::to_string(content.size()) + " of " + std::to_string(size) + " bytes");
  if (sum_of(content.data(), content.size()) != sum) throw std::runtime_error(path + " is not what atc wrote: its sum differs");
  if (chip != soc) throw std::runtime_error(path + " was compiled for " + chip + ", this device is " + soc);
  return from_compiled_bytes(content, path);
}
}  // namespace air_sim::graph_engine

namespace {
thread_local std::string problem;
}
// For the atc program: compiles an .air file. Null, or what went wrong.
extern "C" __attribute__((visibility("default"))) const char* air_sim_atc(const char* model, const char* soc,
                                                                         const char* input_sizes, const char* output) {
  using namespace air_sim::graph_engine;
  try {
    const std::string content = read_all(model);
    const auto parsed = parse_model(content.data(), content.size());
    if (parsed->outputs.empty()) throw std::runtime_error(std::string(model) + " is no model: it has no results");
    set_input_sizes(*parsed, input_sizes);
    for (const Op* input : parsed->inputs)
      for (const int64_t dim : input->output_descs.at(0).shape)
        if (dim < 0) throw std::runtime_error("input " + input->name + " has open sizes: give --input_shape");
    compile(*parsed, soc);
    if (!parsed->is_static) throw std::runtime_error("sizes of its results follow from values; an offline model has fixed ones");
    write_offline(*parsed, soc, output);
    return nullptr;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    problem = text.substr(0, text.find("\nException raised from"));
    return problem.c_str();
  }
}
