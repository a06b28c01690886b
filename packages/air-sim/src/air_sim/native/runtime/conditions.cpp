// Conditions of a captured graph: a value in device memory, and graphs of which a replay runs one by that value.
#include "capture.h"
#include "status.h"

namespace air_sim {
Condition::~Condition() { aclrtFree(value); }
void Condition::reset() const {
  if (resets) *static_cast<uint64_t*>(host_address(value)) = initial;
}

namespace {
Condition* condition_of(Graph& graph, aclmdlRICondHandle handle) {
  for (const auto& condition : graph.conditions)
    if (condition.get() == handle) return condition.get();
  return nullptr;
}
// The graph whose capture made the condition.
std::shared_ptr<Graph> captured_with(aclmdlRICondHandle handle, Stream* stream) {
  const auto graph = stream->capture;
  return graph && condition_of(*graph, handle) ? graph : nullptr;
}
aclError add_choice(const aclmdlRICondTaskParams& params, Stream* stream) {
  Task task;
  {
    std::lock_guard<std::mutex> lock(capture_mutex());
    const auto graph = captured_with(params.handle, stream);
    if (!graph) return fail(ACL_ERROR_RT_PARAM_INVALID, "stream %d is not captured into the graph of this condition", stream->id);
    if (params.type != ACL_MODEL_RI_COND_TYPE_IF || params.size < 1 || params.size > 2)
      return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "air-sim has conditions of one or two branches alone (type %d, size %u)",
                  static_cast<int>(params.type), params.size);
    std::vector<std::shared_ptr<Graph>> branches;
    for (uint32_t i = 0; i < params.size; ++i) {
      branches.push_back(add_child(*graph));
      params.modelRIArray[i] = branches.back().get();
    }
    const void* value = condition_of(*graph, params.handle)->value;
    task = {[branches, value] {
              const size_t chosen = *static_cast<const uint64_t*>(host_address(value)) != 0 ? 0 : 1;
              if (chosen < branches.size()) replay(*branches[chosen], *running_stream());
            },
            "condition", Kind::host};
  }
  return submit(stream, std::move(task));
}
}  // namespace
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclmdlRICondHandleCreate(aclmdlRI handle, uint32_t initial, aclmdlRICondHandleFlag flag,
                                              aclmdlRICondHandle* out) {
  AIR_SIM_REFUSABLE;
  void* value = nullptr;
  if (const aclError error = aclrtMalloc(&value, sizeof(uint64_t), ACL_MEM_MALLOC_HUGE_FIRST)) return error;
  auto condition = std::make_unique<Condition>(value, initial, flag == ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT);
  *static_cast<uint64_t*>(host_address(value)) = initial;
  std::lock_guard<std::mutex> lock(capture_mutex());
  const auto graph = find_graph(handle);
  if (!graph || !graph->capturing) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a graph that is being captured", handle);
  *out = condition.get();
  graph->conditions.push_back(std::move(condition));
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t** out) {
  AIR_SIM_REFUSABLE;
  *out = static_cast<uint64_t*>(static_cast<Condition*>(handle)->value);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t) {
  AIR_SIM_REFUSABLE;
  return add_choice(params, stream_of(stream));
}
AIR_SIM_API aclError aclmdlRICaptureToModelRIBegin(aclrtStream handle, aclmdlRI graph_handle, aclmdlRICaptureMode mode) {
  AIR_SIM_REFUSABLE;
  Stream* stream = stream_of(handle);
  std::lock_guard<std::mutex> lock(capture_mutex());
  const auto graph = find_graph(graph_handle);
  if (!graph || !graph->is_open) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a branch that waits for its capture", graph_handle);
  return begin(stream, graph, mode);
}
