// Events: recorded by one stream, waited for by others; inside a capture they are edges of the graph.
#include "events.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "capture.h"
#include "device.h"
#include "launch_thread.h"
#include "status.h"
#include "switches.h"

namespace air_sim {
namespace {
// How often a device was told to start anew: what failed before that is over.
std::atomic<uint64_t> g_new_starts{0};

// One recording of an event.  Recording again makes a new one, so a wait keeps what it was issued for.
struct Record {
  std::mutex m;
  std::condition_variable changed;
  bool done = false;
  uint64_t ns = 0;
  Failure failure;          // of the stream it was recorded on,
  uint64_t new_starts = 0;  // and after how many new starts it failed
  void set(Failure found) {
    {
      std::lock_guard<std::mutex> lock(m);
      done = true;
      ns = now_ns();
      failure = std::move(found);
      new_starts = g_new_starts;
    }
    changed.notify_all();
  }
  bool is_done() {
    std::lock_guard<std::mutex> lock(m);
    return done;
  }
  void wait() {
    std::unique_lock<std::mutex> lock(m);
    changed.wait(lock, [&] { return done; });
  }
  // False when the waiting stream was killed first.
  // What the awaited stream did not compute the waiting one cannot use: it fails with it.
  void wait_in(Stream& stream) {
    std::unique_lock<std::mutex> lock(m);
    while (!done && !stream.killed) changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return done; });
    if (done && still_failed()) stream.fail_with(failure.code, "waited for a stream that has failed: " + failure.text);
  }
  bool still_failed() const { return failure.code != ACL_SUCCESS && new_starts == g_new_starts; }
};
// An external event is a flag of the device: it orders a graph against the world outside, so it is set, waited for and
// cleared by tasks rather than turned into edges.
using Flag = std::atomic<bool>;

struct Event {
  explicit Event(uint32_t flags) : device(current_device()), external((flags & ACL_EVENT_EXTERNAL) != 0) {}
  const int device;
  const bool external;
  std::shared_ptr<Flag> flag = std::make_shared<Flag>(false);
  std::mutex m;
  std::shared_ptr<Record> last;
  // Guarded by the capture mutex.
  std::weak_ptr<Graph> capture;
  std::vector<int> deps;
  std::shared_ptr<Record> latest() {
    std::lock_guard<std::mutex> lock(m);
    return last;
  }
};
struct Budget {
  std::mutex m;
  std::map<int, int64_t> used;
};
Budget& budget() {
  static Budget& it = *new Budget;
  return it;
}

aclError create(aclrtEvent* out, uint32_t flags) {
  if (!reserve_events(current_device(), 1))
    return fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, "device %d has no event left: all %lld are in use by events and graphs",
                current_device(), (long long)switches().events.load());
  *out = new Event(flags);
  return ACL_SUCCESS;
}
bool in_capture(Event* event) {
  if (!recording()) return false;
  std::lock_guard<std::mutex> lock(capture_mutex());
  const auto graph = event->capture.lock();
  return graph && graph->capturing;
}

// Records into the capture of the stream, if it has one.
bool record_in_capture(Event* event, Stream* stream, aclError& status) {
  std::lock_guard<std::mutex> lock(capture_mutex());
  status = ACL_SUCCESS;
  event->capture.reset();
  if (!stream->capture) return false;
  if (!reserve_events(stream->capture->device, 1)) {
    status = fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no event left for the graph being captured: destroy graphs or events");
    return true;
  }
  ++stream->capture->reserved_events;
  event->capture = stream->capture;
  event->deps = stream->tail;
  return true;
}
aclError record(Event* event, Stream* stream) {
  if (event->external)
    return submit(stream, {[flag = event->flag] { flag->store(true); }, "event record", Kind::event});
  aclError status;
  if (recording()) {
    before_launch(stream->device);
    if (record_in_capture(event, stream, status)) return status;
  }
  auto made = std::make_shared<Record>();
  {
    std::lock_guard<std::mutex> lock(event->m);
    event->last = made;
  }
  return submit(stream, {[made, stream] { made->set(stream->failure()); }, "event record", Kind::event});
}

// A wait that concerns a capture becomes edges; false: it is an ordinary wait.
bool wait_in_capture(Event* event, Stream* stream, aclError& status) {
  std::lock_guard<std::mutex> lock(capture_mutex());
  status = ACL_SUCCESS;
  const auto graph = event->capture.lock();
  if (!graph || !graph->capturing) {
    if (!stream->capture) return false;
    if (event->latest())
      status = fail(ACL_ERROR_RT_CAPTURE_DEPENDENCY, "a captured stream waits for an event recorded outside the capture");
    return true;
  }
  if (stream->capture && stream->capture != graph) {
    status = fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, "the wait would join two captures");
    return true;
  }
  if (!stream->capture && (status = join_capture(*stream, graph)) != ACL_SUCCESS) return true;
  for (const int node : event->deps)
    if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end()) stream->tail.push_back(node);
  return true;
}
aclError wait(Event* event, Stream* stream) {
  if (event->external) {
    const auto flag = event->flag;
    const auto ready = [flag] { return flag->load(); };
    if (is_captured(stream)) return submit(stream, {[] {}, "event wait", Kind::event, ready});
    return submit(stream, {[stream, ready] { wait_until(*stream, ready); }, "event wait", Kind::event});
  }
  aclError status;
  if (recording()) {
    before_launch(stream->device);
    if (wait_in_capture(event, stream, status)) return status;
  }
  const auto awaited = event->latest();
  if (!awaited) return ACL_SUCCESS;
  return submit(stream, {[awaited, stream] { awaited->wait_in(*stream); }, "event wait", Kind::event});
}
aclError query(aclrtEvent handle, bool* done) {
  auto* event = static_cast<Event*>(handle);
  if (in_capture(event)) return fail(ACL_ERROR_RT_EVENT_CAPTURED, "querying an event that was recorded in a capture");
  if (event->external) {
    *done = event->flag->load();
    return ACL_SUCCESS;
  }
  const auto record = event->latest();
  *done = !record || record->is_done();
  return ACL_SUCCESS;
}
}  // namespace
void forget_failures() { ++g_new_starts; }

bool reserve_events(int device, int count) {
  Budget& b = budget();
  std::lock_guard<std::mutex> lock(b.m);
  if (b.used[device] + count > switches().events) return false;
  b.used[device] += count;
  return true;
}
void release_events(int device, int count) {
  Budget& b = budget();
  std::lock_guard<std::mutex> lock(b.m);
  b.used[device] -= count;
}
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclrtCreateEvent(aclrtEvent* out) {
  AIR_SIM_REFUSABLE;
  return create(out, 0);
}
AIR_SIM_API aclError aclrtCreateEventWithFlag(aclrtEvent* out, uint32_t flags) {
  AIR_SIM_REFUSABLE;
  return create(out, flags);
}
AIR_SIM_API aclError aclrtCreateEventExWithFlag(aclrtEvent* out, uint32_t flags) {
  AIR_SIM_REFUSABLE;
  return create(out, flags);
}
AIR_SIM_API aclError aclrtDestroyEvent(aclrtEvent handle) {
  AIR_SIM_REFUSABLE;
  auto* event = static_cast<Event*>(handle);
  release_events(event->device, 1);
  delete event;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  return record(static_cast<Event*>(handle), stream_of(stream));
}
AIR_SIM_API aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent handle) {
  AIR_SIM_REFUSABLE;
  return wait(static_cast<Event*>(handle), stream_of(stream));
}
AIR_SIM_API aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  auto* event = static_cast<Event*>(handle);
  if (!event->external) return ACL_SUCCESS;  // every recording is a new one: nothing to take back
  return submit(stream_of(stream), {[flag = event->flag] { flag->store(false); }, "event reset", Kind::event});
}
AIR_SIM_API aclError aclrtSynchronizeEvent(aclrtEvent handle) {
  AIR_SIM_REFUSABLE;
  auto* event = static_cast<Event*>(handle);
  if (in_capture(event)) return fail(ACL_ERROR_RT_EVENT_CAPTURED, "synchronising an event that was recorded in a capture");
  const auto record = event->latest();
  if (!record) return ACL_SUCCESS;
  if (const aclError lost = launches_ended(event->device)) return lost;
  record->wait();
  return record->still_failed() ? report_async(record->failure.code, record->failure.text) : ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus* status) {
  AIR_SIM_REFUSABLE;
  bool done = false;
  if (const aclError error = query(handle, &done)) return error;
  *status = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtQueryEventWaitStatus(aclrtEvent handle, aclrtEventWaitStatus* status) {
  AIR_SIM_REFUSABLE;
  bool done = false;
  if (const aclError error = query(handle, &done)) return error;
  *status = done ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end) {
  AIR_SIM_REFUSABLE;
  const auto from = static_cast<Event*>(start)->latest(), to = static_cast<Event*>(end)->latest();
  if (!from || !to || !from->is_done() || !to->is_done())
    return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the elapsed time of an event that is not recorded and finished");
  *ms = (static_cast<int64_t>(to->ns) - static_cast<int64_t>(from->ns)) * 1e-6f;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtEventGetTimestamp(aclrtEvent handle, uint64_t* us) {
  AIR_SIM_REFUSABLE;
  const auto record = static_cast<Event*>(handle)->latest();
  if (!record || !record->is_done()) return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event is not recorded");
  *us = record->ns / 1000;
  return ACL_SUCCESS;
}
