// Operators that the engine knows and a chip has no program for: the engine refuses a graph that has one.
#include <functional>
#include <map>
#include <stdexcept>

#include "model.h"

namespace air_sim::graph_engine {
namespace {
using Lacks = std::function<bool(const Op&)>;

bool always(const Op&) { return true; }
bool wants_wide_places(const Op& op) {
  const auto found = op.attributes.find("dtype");
  return found != op.attributes.end() && found->second.integer != 3;  // 3 is int32, 9 is int64
}

// What chips before Ascend 950 lack.
const std::map<std::string, Lacks>& missing_before_950() {
  static const auto& rows = *new std::map<std::string, Lacks>{
      {"AvgPool3D", [](const Op& op) { return op.attributes.count("data_format") && op.attributes.at("data_format").text != "NDHWC"; }},
      {"GroupNormGrad", always},
      {"GroupNormV2", always},
      {"MaxPool3DWithArgmaxV2", wants_wide_places},
      {"MaxPoolGradWithArgmaxV3", always},
      {"MaxPoolWithArgmaxV3", always},
      {"ReduceStdV2", always},
  };
  return rows;
}

bool is_before_950(const std::string& soc) {
  return soc.rfind("Ascend950", 0) != 0 && soc.rfind("Ascend910_95", 0) != 0;
}
}  // namespace

void refuse_what_is_missing(const Model& model, const std::string& soc) {
  if (!is_before_950(soc)) return;
  for (const Op* op : model.order) {
    const auto found = missing_before_950().find(op->type);
    if (found != missing_before_950().end() && found->second(*op))
      throw std::runtime_error("EZ3003: No supported Ops kernel and engine are found for [" + op->name + "], optype [" + op->type + "].");
    for (const auto& body : op->bodies) refuse_what_is_missing(*body, soc);
  }
}
}  // namespace air_sim::graph_engine
