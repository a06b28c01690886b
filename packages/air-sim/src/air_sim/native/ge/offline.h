// Offline models in files.
#pragma once
#include <memory>
#include <string>

#include "model.h"

namespace air_sim::graph_engine {
// Sizes of arguments that the graph leaves open: "x:2,4;y:3".  Throws where they do not fit.
void set_input_sizes(Model& model, const std::string& text);
// Writes whole or not at all.
void write_offline(const Model& model, const std::string& soc, const std::string& path);
// Throws std::runtime_error for a file that is none, was changed, or was compiled for another chip.
std::shared_ptr<Model> read_offline(const std::string& path, const std::string& soc);
}  // namespace air_sim::graph_engine
