// Graph capture: what a captured graph is, and the questions other parts of the runtime ask about captures.
#pragma once
#include <acl/acl.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "stream.h"

namespace air_sim {
struct Node {
  std::shared_ptr<const Task> task;  // a task update replaces it: read it under the graph's task mutex
  int stream_id;
  std::vector<int> deps, next;
};
// The tasks captured between a task group begin and end: what a task update may replace.
struct Group {
  Graph* graph;
  std::vector<int> nodes;
};
// A value in device memory by which a replay chooses; at the start of each it is `initial` where it `resets`.
struct Condition {
  Condition(void* value_, uint32_t initial_, bool resets_) : value(value_), initial(initial_), resets(resets_) {}
  ~Condition();
  void reset() const;
  void* const value;
  const uint32_t initial;
  const bool resets;
};
struct Graph {
  Graph(uint32_t id, int device);
  ~Graph();
  const uint32_t id;
  const int device;
  aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  Stream* origin = nullptr;
  bool is_open = true;  // nothing has been captured into it
  bool capturing = false;
  std::vector<Node> nodes;  // in record order, which is a topological order
  bool is_chain = true;     // every node depends on the one before it: no branches to run at the same time
  std::set<Stream*> streams;
  std::vector<std::unique_ptr<Group>> groups;
  std::mutex task_m;
  std::vector<std::unique_ptr<Condition>> conditions;
  std::vector<std::shared_ptr<Graph>> children;  // the branches of its conditions
  int reserved_streams = 0;
  int reserved_events = 0;
  std::vector<std::pair<aclrtCallback, void*>> on_destroy;
  std::shared_ptr<const Task> task_of(int node);
};

// Guards every capture: graphs, and the capture members of streams and events.
std::mutex& capture_mutex();
// Cheap: is any stream being captured or updated at all?
bool recording();
// Turns a task into a graph node or a task update when the stream records; false: it is an ordinary task.
bool record_task(Stream* stream, Task& task, aclError& status);
bool is_captured(Stream* stream);
// The stream goes away: a capture it belonged to must not look at it again.
void forget_captured(Stream* stream);
// Calls that wait for the device, after the mode of the captures under way and of the calling thread.
bool synchronising_is_forbidden();
// The graph behind a handle, or null.
std::shared_ptr<Graph> find_graph(aclmdlRI handle);
// The task group behind a handle, or null when no living graph has it.
Group* find_group(aclrtTaskGrp handle);
// Appends a node; the capture mutex is held.
void add_node(Stream& stream, Task task);
// Lets a stream take part in a capture; the capture mutex is held.
aclError join_capture(Stream& stream, const std::shared_ptr<Graph>& graph);
// Captures a stream into a graph; the capture mutex is held.
aclError begin(Stream* stream, const std::shared_ptr<Graph>& graph, aclmdlRICaptureMode mode);
// A graph without tasks that belongs to another; the capture mutex is held.
std::shared_ptr<Graph> add_child(Graph& parent);
// Counts streams that record without a capture of their own (task updates) into recording().
void count_recording(int change);
// Runs the whole graph, on this thread and helpers, on behalf of `stream`.
void replay(Graph& graph, Stream& stream);
}  // namespace air_sim
