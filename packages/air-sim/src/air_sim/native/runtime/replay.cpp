// Runs captured graphs: a chain in order, branches on several threads, and in a random legal order when asked to.
#include <algorithm>
#include <condition_variable>
#include <deque>

#include "capture.h"
#include "status.h"
#include "switches.h"

namespace air_sim {
namespace {
// One replay under way, shared by the threads that work on it.
class Run {
 public:
  Run(Graph& graph, Stream& stream) : graph_(graph), stream_(stream), waiting_for_(graph.nodes.size()), left_(graph.nodes.size()) {
    for (size_t i = 0; i < waiting_for_.size(); ++i) {
      waiting_for_[i] = static_cast<int>(graph.nodes[i].deps.size());
      if (waiting_for_[i] == 0) ready_.push_back(static_cast<int>(i));
    }
  }
  // Works until nothing is left; every thread that takes part calls it.
  void work() {
    std::unique_lock<std::mutex> lock(m_);
    while (left_ > 0) {
      const int node = pick();
      if (node < 0) {
        // Somebody else's node, or an event recorded outside the graph, will make something ready.
        changed_.wait_for(lock, std::chrono::microseconds(200));
        continue;
      }
      lock.unlock();
      run_task(stream_, *graph_.task_of(node));
      lock.lock();
      for (const int after : graph_.nodes[node].next)
        if (--waiting_for_[after] == 0) ready_.push_back(after);
      --left_;
      changed_.notify_all();
    }
  }

 private:
  // A ready node that would not block, removed from the list; -1 when there is none.
  int pick() {
    const size_t count = ready_.size();
    const size_t start = switches().seed != 0 ? random_below(count) : 0;
    for (size_t k = 0; k < count; ++k) {
      const size_t at = (start + k) % count;
      const int node = ready_[at];
      const auto task = graph_.task_of(node);
      if (task->ready && !stream_.killed && !task->ready()) continue;
      ready_.erase(ready_.begin() + at);
      return node;
    }
    return -1;
  }
  Graph& graph_;
  Stream& stream_;
  std::mutex m_;
  std::condition_variable changed_;
  std::vector<int> waiting_for_;
  std::vector<int> ready_;
  size_t left_;
};

// Threads that help with replays.  They are shared by all streams; a replay never depends on getting one, because
// the stream's own thread works on it too.
class Helpers {
 public:
  void offer(const std::shared_ptr<Run>& run, int64_t threads) {
    std::lock_guard<std::mutex> lock(m_);
    for (int64_t i = 0; i < threads; ++i) offers_.push_back(run);
    while (static_cast<int64_t>(threads_) < threads) {
      ++threads_;
      std::thread([this] { loop(); }).detach();
    }
    work_.notify_all();
  }

 private:
  void loop() {
    for (;;) {
      std::shared_ptr<Run> run;
      {
        std::unique_lock<std::mutex> lock(m_);
        work_.wait(lock, [&] { return !offers_.empty(); });
        run = std::move(offers_.front());
        offers_.pop_front();
      }
      run->work();
    }
  }
  std::mutex m_;
  std::condition_variable work_;
  std::deque<std::shared_ptr<Run>> offers_;
  size_t threads_ = 0;
};
Helpers& helpers() {
  static Helpers& it = *new Helpers;
  return it;
}

aclError launch(aclmdlRI handle, aclrtStream stream_handle) {
  std::shared_ptr<Graph> graph;
  {
    std::lock_guard<std::mutex> lock(capture_mutex());
    graph = find_graph(handle);
    if (!graph) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a graph", handle);
    if (graph->capturing) return fail(ACL_ERROR_RT_MODEL_CAPTURED, "the graph is still being captured");
  }
  Stream* stream = stream_of(stream_handle);
  return submit(stream, {[graph, stream] { replay(*graph, *stream); }, "graph", Kind::host});
}
}  // namespace

void replay(Graph& graph, Stream& stream) {
  const int64_t threads = switches().replay_threads;
  for (const auto& condition : graph.conditions) condition->reset();
  if (graph.is_chain) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const auto task = graph.task_of(static_cast<int>(i));
      if (task->ready) wait_until(stream, task->ready);
      run_task(stream, *task);
    }
    return;
  }
  const auto run = std::make_shared<Run>(graph, stream);
  if (threads > 1) helpers().offer(run, threads - 1);
  run->work();
}
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclmdlRIExecuteAsync(aclmdlRI graph, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  return launch(graph, stream);
}
AIR_SIM_API aclError aclmdlRIExecute(aclmdlRI graph, int32_t timeout_ms) {
  AIR_SIM_REFUSABLE;
  if (const aclError error = launch(graph, nullptr)) return error;
  return aclrtSynchronizeStreamWithTimeout(nullptr, timeout_ms);
}
