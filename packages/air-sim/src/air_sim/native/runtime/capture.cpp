// Capturing streams into graphs: while a stream is captured, its tasks become nodes instead of work.
#include "capture.h"

#include <cstdio>
#include <map>

#include "events.h"
#include "status.h"

namespace air_sim {
namespace {
std::atomic<int> g_recording{0};
std::map<void*, std::shared_ptr<Graph>>& graphs() {
  static auto& all = *new std::map<void*, std::shared_ptr<Graph>>;
  return all;
}
thread_local aclmdlRICaptureMode t_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
std::atomic<uint32_t> g_next_graph{0};

// Every stream that took part must have been joined: each of its last nodes must lead to the origin's last nodes.
bool is_joined(const Graph& graph) {
  std::vector<char> reaches(graph.nodes.size(), 0);
  for (const int last : graph.origin->tail) reaches[last] = 1;
  for (size_t i = reaches.size(); i-- > 0;)
    if (reaches[i])
      for (const int before : graph.nodes[i].deps) reaches[before] = 1;
  for (const Stream* stream : graph.streams)
    for (const int last : stream->tail)
      if (!reaches[last]) return false;
  return true;
}
void finish(Graph& graph) {
  for (Stream* stream : graph.streams) {
    stream->capture.reset();
    stream->tail.clear();
    stream->open_group = nullptr;
  }
  graph.streams.clear();
  graph.capturing = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& deps = graph.nodes[i].deps;
    for (const int before : deps) graph.nodes[before].next.push_back(static_cast<int>(i));
    if (i > 0) graph.is_chain &= deps.size() == 1 && deps[0] == static_cast<int>(i) - 1;
  }
  count_recording(-1);
}
}  // namespace

Graph::Graph(uint32_t id_, int device_) : id(id_), device(device_) {}
Graph::~Graph() {
  release_streams(device, reserved_streams);
  release_events(device, reserved_events);
}
std::shared_ptr<const Task> Graph::task_of(int node) {
  std::lock_guard<std::mutex> lock(task_m);
  return nodes[node].task;
}

std::mutex& capture_mutex() {
  static std::mutex& m = *new std::mutex;
  return m;
}
bool recording() { return g_recording.load(std::memory_order_acquire) != 0; }
void count_recording(int change) { g_recording += change; }
bool is_captured(Stream* stream) {
  if (!recording()) return false;
  std::lock_guard<std::mutex> lock(capture_mutex());
  return stream->capture != nullptr;
}
void forget_captured(Stream* stream) {
  if (!recording()) return;
  std::lock_guard<std::mutex> lock(capture_mutex());
  if (!stream->capture) return;
  const auto graph = stream->capture;
  if (graph->origin == stream)
    finish(*graph);  // nobody can end this capture any more
  else
    graph->streams.erase(stream);
}
std::shared_ptr<Graph> find_graph(aclmdlRI handle) {
  const auto found = graphs().find(handle);
  return found == graphs().end() ? nullptr : found->second;
}
Group* find_group(aclrtTaskGrp handle) {
  for (const auto& [key, graph] : graphs())
    for (const auto& group : graph->groups)
      if (group.get() == handle) return group.get();
  return nullptr;
}

bool synchronising_is_forbidden() {
  if (!recording() || t_mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return false;
  std::lock_guard<std::mutex> lock(capture_mutex());
  for (const auto& [handle, graph] : graphs()) {
    if (!graph->capturing || graph->mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) continue;
    if (graph->thread == std::this_thread::get_id()) return true;
    if (t_mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && graph->mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) return true;
  }
  return false;
}

void add_node(Stream& stream, Task task) {
  Graph& graph = *stream.capture;
  const int index = static_cast<int>(graph.nodes.size());
  const bool in_group = stream.open_group && task.kind != Kind::event;
  graph.nodes.push_back({std::make_shared<const Task>(std::move(task)), stream.id, stream.tail, {}});
  stream.tail.assign(1, index);
  if (in_group) stream.open_group->nodes.push_back(index);
}
aclError join_capture(Stream& stream, const std::shared_ptr<Graph>& graph) {
  // A graph keeps a stream of the device for every stream that took part, until it is destroyed.
  if (!reserve_streams(graph->device, 1))
    return fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no stream left for the graph being captured: destroy graphs or streams");
  ++graph->reserved_streams;
  stream.capture = graph;
  stream.tail.clear();
  graph->streams.insert(&stream);
  return ACL_SUCCESS;
}

aclError begin(Stream* stream, const std::shared_ptr<Graph>& graph, aclmdlRICaptureMode mode) {
  if (stream->capture) return fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is already being captured", stream->id);
  if (stream->update) return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d is updating a task group", stream->id);
  if (const aclError error = join_capture(*stream, graph)) return error;
  graph->origin = stream;
  graph->mode = mode;
  graph->thread = std::this_thread::get_id();
  graph->is_open = false;
  graph->capturing = true;
  graphs()[graph.get()] = graph;
  count_recording(1);
  return ACL_SUCCESS;
}
std::shared_ptr<Graph> add_child(Graph& parent) {
  parent.children.push_back(std::make_shared<Graph>(++g_next_graph, parent.device));
  const auto& child = parent.children.back();
  graphs()[child.get()] = child;
  return child;
}

namespace {
void forget(const Graph& graph) {
  for (const auto& child : graph.children) forget(*child);
  graphs().erase(const_cast<Graph*>(&graph));
}
aclError end(Stream* stream, aclmdlRI* out) {
  std::lock_guard<std::mutex> lock(capture_mutex());
  const auto graph = stream->capture;
  if (!graph) return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", stream->id);
  if (graph->origin != stream)
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "the capture was begun on stream %d and ended on stream %d",
                graph->origin->id, stream->id);
  if (graph->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && graph->thread != std::this_thread::get_id())
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, "the capture of stream %d was begun by another thread", stream->id);
  bool group_open = false;
  for (const Stream* member : graph->streams) group_open |= member->open_group != nullptr;
  const bool joined = is_joined(*graph);
  bool branch_open = false;
  for (const auto& child : graph->children) branch_open |= child->is_open || child->capturing;
  finish(*graph);
  if (out) *out = graph.get();
  if (branch_open) return fail(ACL_ERROR_RT_STREAM_UNJOINED, "the capture ended before that of a branch of its conditions");
  if (group_open) return fail(ACL_ERROR_STREAM_TASK_GROUP_INTR, "the capture ended inside a task group");
  if (!joined)
    return fail(ACL_ERROR_RT_STREAM_UNJOINED,
                "a stream that was forked from the captured one was not joined before the end of the capture");
  return ACL_SUCCESS;
}
}  // namespace
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
  AIR_SIM_REFUSABLE;
  Stream* captured = stream_of(stream);
  std::lock_guard<std::mutex> lock(capture_mutex());
  return begin(captured, std::make_shared<Graph>(++g_next_graph, captured->device), mode);
}
AIR_SIM_API aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* out) {
  AIR_SIM_REFUSABLE;
  return end(stream_of(stream), out);
}
AIR_SIM_API aclError aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus* status, aclmdlRI* out) {
  AIR_SIM_REFUSABLE;
  Graph* graph = nullptr;
  if (recording()) {
    Stream* stream = stream_of(handle);
    std::lock_guard<std::mutex> lock(capture_mutex());
    graph = stream->capture.get();
  }
  *status = graph ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE : ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  if (out) *out = graph;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  AIR_SIM_REFUSABLE;
  std::swap(t_mode, *mode);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlRIDestroy(aclmdlRI handle) {
  AIR_SIM_REFUSABLE;
  std::shared_ptr<Graph> graph;
  {
    std::lock_guard<std::mutex> lock(capture_mutex());
    graph = find_graph(handle);
    if (!graph) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a graph", handle);
    if (graph->capturing) return fail(ACL_ERROR_RT_MODEL_CAPTURED, "the graph is still being captured");
    forget(*graph);
  }
  for (const auto& [callback, argument] : graph->on_destroy) callback(argument);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlRIDestroyRegisterCallback(aclmdlRI handle, aclrtCallback callback, void* argument) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(capture_mutex());
  const auto graph = find_graph(handle);
  if (!graph) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a graph", handle);
  graph->on_destroy.push_back({callback, argument});
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlRIGetId(aclmdlRI handle, uint32_t* id) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(capture_mutex());
  const auto graph = find_graph(handle);
  if (!graph) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a graph", handle);
  *id = graph->id;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlRIDebugPrint(aclmdlRI handle) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(capture_mutex());
  const auto graph = find_graph(handle);
  if (!graph) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a graph", handle);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    printf("%zu %s stream=%d deps=[", i, graph->task_of(i)->name, graph->nodes[i].stream_id);
    for (const int before : graph->nodes[i].deps) printf("%d ", before);
    printf("]\n");
  }
  return ACL_SUCCESS;
}
// A trace file as trace viewers read it: time is the position in the graph, there is no duration to show.
AIR_SIM_API aclError aclmdlRIDebugJsonPrint(aclmdlRI handle, const char* path, uint32_t) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(capture_mutex());
  const auto graph = find_graph(handle);
  if (!graph) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a graph", handle);
  FILE* file = fopen(path, "w");
  if (!file) return fail(ACL_ERROR_RT_FILE_OPEN, "cannot write %s", path);
  fprintf(file, "[\n");
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const Node& node = graph->nodes[i];
    fprintf(file, "%s{\"name\":\"%s\",\"ph\":\"X\",\"pid\":\"graph%u\",\"tid\":\"stream%d\",\"ts\":%zu,\"dur\":1,"
            "\"args\":{\"id\":%zu,\"stream\":%d,\"deps\":[",
            i ? ",\n" : "", graph->task_of(i)->name, graph->id, node.stream_id, i, i, node.stream_id);
    for (size_t k = 0; k < node.deps.size(); ++k) fprintf(file, "%s%d", k ? "," : "", node.deps[k]);
    fprintf(file, "]}}");
  }
  fprintf(file, "\n]\n");
  fclose(file);
  return ACL_SUCCESS;
}
