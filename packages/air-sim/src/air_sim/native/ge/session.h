// What a ge::Graph holds, for the session that runs it.
#pragma once
#include <memory>

#include "model.h"
#include "session_abi.h"

namespace ge {
class GraphImpl {
 public:
  std::shared_ptr<air_sim::graph_engine::Model> model;
};
}  // namespace ge
