// Streams: a queue of tasks and a thread that runs them, in order.
#pragma once
#include <acl/acl.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "air_sim/runtime.h"

namespace air_sim {
enum class Kind {
  kernel,  // counts for kernel faults, takes a slot of the device
  copy,
  host,   // a callback or a graph: runs as it is
  event,  // record, wait, reset: runs even on a stream that has failed, or others would wait for ever
};
struct Task {
  Fn run;
  const char* name;
  Kind kind;
  // Of a task that waits for something outside its graph: true when it would not have to wait.  A replay runs other
  // branches until then instead of blocking a thread.
  std::function<bool()> ready = {};
};
struct Graph;
struct Group;
// An asynchronous error and what it was; the code is 0 where there is none.
struct Failure {
  aclError code = ACL_SUCCESS;
  std::string text;
};

struct Stream {
  Stream(int device, uint32_t priority, uint32_t flags);
  ~Stream();
  void push(Task task);
  bool idle();
  // False when `timeout_ms` (negative: none) went by first.
  bool wait_idle(int64_t timeout_ms);
  // Makes every wait inside the stream give up; used before the thread is joined by force.
  void kill() { killed = true; }

  const int id, device;
  const uint32_t priority, flags;
  std::atomic<bool> killed{false};
  std::atomic<bool> stop_on_failure{false};

  // The first asynchronous error.  `aborted`: kernels no longer run (the driver's stop-on-failure mode).
  std::mutex error_m;
  aclError error = ACL_SUCCESS;
  std::string error_text;
  std::atomic<bool> aborted{false};
  void fail_with(aclError code, const std::string& text);
  aclError take_error();
  Failure failure();
  void clear_error();

  // State of a capture, guarded by the capture mutex.
  std::shared_ptr<Graph> capture;
  std::vector<int> tail;       // nodes that the next captured task depends on
  Group* open_group = nullptr;  // between task group begin and end
  Group* update = nullptr;      // between task update begin and end
  size_t updated = 0;

 private:
  void loop();
  std::mutex m_;
  std::condition_variable work_, idle_;
  std::deque<Task> queue_;
  uint64_t submitted_ = 0;
  std::atomic<uint64_t> done_{0};
  std::atomic<int> waiting_{0};
  bool stop_ = false;
  std::thread thread_;
};

// The stream behind a handle; null is the default stream of the current device.
Stream* stream_of(aclrtStream handle);
// Every stream of a device (-1: of all devices), for device-wide synchronisation.
std::vector<std::shared_ptr<Stream>> streams_of_device(int device);
// Puts a task on a stream, or into the graph or task group that the stream is recording.
int submit(Stream* stream, Task task);
// Runs one task in the calling thread on behalf of `stream`: with its delay, faults and error state.
void run_task(Stream& stream, const Task& task);
// The stream on whose behalf this thread runs a task; null where it runs none.
Stream* running_stream();
// Waits by polling until `ready`, or until the stream is killed.
template <class Ready>
void wait_until(const Stream& stream, Ready ready) {
  while (!ready() && !stream.killed) std::this_thread::sleep_for(std::chrono::microseconds(100));
}
// Takes (or with false gives back) streams of the device's budget; false: there are not that many left.
bool reserve_streams(int device, int count);
void release_streams(int device, int count);
}  // namespace air_sim
