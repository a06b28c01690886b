// Task groups: tasks of a graph that may be replaced after the capture.  A replacement is itself a task of the
// updating stream, so streams and events order it against the replay, exactly as on a device.
#include <utility>

#include "capture.h"
#include "status.h"

namespace air_sim {
namespace {
aclError update_task(Stream* stream, Task& task) {
  Group& group = *stream->update;
  if (stream->updated >= group.nodes.size())
    return fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, "the task update has more tasks than its group (%zu)", group.nodes.size());
  const int node = group.nodes[stream->updated++];
  const auto graph = find_graph(group.graph);
  const auto replacement = std::make_shared<const Task>(std::move(task));
  stream->push({[graph, node, replacement] {
                  std::lock_guard<std::mutex> lock(graph->task_m);
                  graph->nodes[node].task = replacement;
                },
                "task update", Kind::host});
  return ACL_SUCCESS;
}
}  // namespace

bool record_task(Stream* stream, Task& task, aclError& status) {
  std::lock_guard<std::mutex> lock(capture_mutex());
  if (stream->update && task.kind != Kind::event) {
    status = update_task(stream, task);
    return true;
  }
  if (!stream->capture) return false;
  add_node(*stream, std::move(task));
  status = ACL_SUCCESS;
  return true;
}
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclmdlRICaptureTaskGrpBegin(aclrtStream handle) {
  AIR_SIM_REFUSABLE;
  Stream* stream = stream_of(handle);
  std::lock_guard<std::mutex> lock(capture_mutex());
  if (!stream->capture) return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "a task group outside a capture");
  if (stream->open_group) return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group inside a task group");
  Graph& graph = *stream->capture;
  graph.groups.push_back(std::make_unique<Group>(Group{&graph, {}}));
  stream->open_group = graph.groups.back().get();
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlRICaptureTaskGrpEnd(aclrtStream handle, aclrtTaskGrp* out) {
  AIR_SIM_REFUSABLE;
  Stream* stream = stream_of(handle);
  std::lock_guard<std::mutex> lock(capture_mutex());
  if (!stream->capture) return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the end of a task group outside a capture");
  if (!stream->open_group) return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "the end of a task group that was not begun");
  *out = std::exchange(stream->open_group, nullptr);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream handle, aclrtTaskGrp group_handle) {
  AIR_SIM_REFUSABLE;
  Stream* stream = stream_of(handle);
  std::lock_guard<std::mutex> lock(capture_mutex());
  Group* group = find_group(group_handle);
  if (!group) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a task group of a living graph", group_handle);
  if (group->graph->capturing) return fail(ACL_ERROR_RT_MODEL_CAPTURED, "the graph is still being captured");
  if (stream->capture) return fail(ACL_ERROR_RT_STREAM_CAPTURED, "the updating stream is being captured");
  if (stream->update) return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task update inside a task update");
  stream->update = group;
  stream->updated = 0;
  count_recording(1);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream handle) {
  AIR_SIM_REFUSABLE;
  Stream* stream = stream_of(handle);
  std::lock_guard<std::mutex> lock(capture_mutex());
  if (!stream->update) return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "the end of a task update that was not begun");
  const Group* group = std::exchange(stream->update, nullptr);
  count_recording(-1);
  if (stream->updated != group->nodes.size())
    return fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, "the task update has %zu tasks, its group %zu", stream->updated,
                group->nodes.size());
  return ACL_SUCCESS;
}
