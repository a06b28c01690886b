// Stream threads, how a task is run, and the stream functions of the ABI.
#include "stream.h"

#include <algorithm>
#include <map>
#include <set>
#include <unistd.h>
#include <utility>

#include "capture.h"
#include "device.h"
#include "launch_thread.h"
#include "status.h"
#include "switches.h"

namespace air_sim {
namespace {
// Streams own threads that may outlive static destructors: nothing here is ever destroyed.
struct Registry {
  std::mutex m;
  std::map<Stream*, std::shared_ptr<Stream>> all;
  std::map<int, std::shared_ptr<Stream>> defaults;
  std::map<int, int64_t> budget_used;
};
Registry& registry() {
  static Registry& it = *new Registry;
  return it;
}
std::atomic<int> g_next_id{0};
thread_local Stream* t_stream = nullptr;  // the stream this thread runs tasks for

// AIR_SIM_SLOTS: how many kernels a device runs at a time.  A free slot goes to the highest priority (the lowest
// number), among equals to whoever waited longest.
struct Slots {
  std::mutex m;
  std::condition_variable changed;
  std::set<std::pair<uint32_t, uint64_t>> queue;
  uint64_t arrivals = 0;
  int64_t busy = 0;
  void take(uint32_t priority, int64_t limit) {
    std::unique_lock<std::mutex> lock(m);
    const auto me = queue.insert({priority, ++arrivals}).first;
    changed.wait(lock, [&] { return busy < limit && me == queue.begin(); });
    queue.erase(me);
    ++busy;
    changed.notify_all();
  }
  void give() {
    std::lock_guard<std::mutex> lock(m);
    --busy;
    changed.notify_all();
  }
};
Slots& slots(int device) {
  static std::vector<Slots>& all = *new std::vector<Slots>(kMaxDevices);
  return all[device];
}
struct SlotHeld {
  SlotHeld(const Stream& s, Kind kind) : held(kind == Kind::kernel && switches().slots > 0), device(s.device) {
    if (held) slots(device).take(s.priority, switches().slots);
  }
  ~SlotHeld() {
    if (held) slots(device).give();
  }
  const bool held;
  const int device;
};

// Delays and a random seed only change when things happen, never an order that streams and events promise.
void linger() {
  const int64_t delay = switches().delay_us;
  const int64_t seed = switches().seed;
  if (delay > 0) {
    usleep(random_below(delay + 1));
  } else if (seed != 0) {
    const uint64_t dice = random_below(8);
    if (dice == 0) usleep(random_below(300));
    if (dice < 4) std::this_thread::yield();
  }
}

void hang(Stream& stream, const char* name) {
  const int64_t limit_ms = kernel_timeout_ms(stream.device);
  const uint64_t until = now_ns() + limit_ms * 1000000ull;
  wait_until(stream, [&] { return now_ns() >= until; });
  stream.fail_with(ACL_ERROR_RT_AICORE_TIMEOUT, std::string(name) + " did not finish within " +
                                                    std::to_string(limit_ms) + " ms: fault hang was injected");
}
}  // namespace

Stream::Stream(int device_, uint32_t priority_, uint32_t flags_)
    : id(g_next_id++), device(device_), priority(priority_), flags(flags_) {}
Stream::~Stream() {
  {
    std::lock_guard<std::mutex> lock(m_);
    stop_ = true;
  }
  work_.notify_one();
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();  // a task dropped the last handle of its own stream
  else
    thread_.join();
}
void Stream::push(Task task) {
  bool wake;
  {
    std::lock_guard<std::mutex> lock(m_);
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
    wake = queue_.empty();
    queue_.push_back(std::move(task));
    ++submitted_;
  }
  if (wake) work_.notify_one();
}
void Stream::loop() {
  t_stream = this;
  use_device(device);
  std::deque<Task> batch;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(m_);
      work_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      batch.swap(queue_);
    }
    while (!batch.empty()) {
      run_task(*this, batch.front());
      batch.pop_front();
      done_.fetch_add(1);
      if (waiting_.load() > 0) {
        std::lock_guard<std::mutex> lock(m_);
        idle_.notify_all();
      }
    }
  }
}
bool Stream::idle() {
  std::lock_guard<std::mutex> lock(m_);
  return done_.load() == submitted_;
}
bool Stream::wait_idle(int64_t timeout_ms) {
  std::unique_lock<std::mutex> lock(m_);
  const uint64_t wanted = submitted_;
  const auto finished = [&] { return done_.load() >= wanted; };
  waiting_.fetch_add(1);
  bool in_time = true;
  if (timeout_ms < 0)
    idle_.wait(lock, finished);
  else
    in_time = idle_.wait_for(lock, std::chrono::milliseconds(timeout_ms), finished);
  waiting_.fetch_sub(1);
  return in_time;
}

void Stream::fail_with(aclError code, const std::string& text) {
  std::lock_guard<std::mutex> lock(error_m);
  if (error != ACL_SUCCESS) return;
  error = code;
  const bool sticky = stop_on_failure && switches().sticky;
  error_text = "stream " + std::to_string(id) + " of device " + std::to_string(device) + ": " + text;
  aborted = sticky;
}
aclError Stream::take_error() {
  std::lock_guard<std::mutex> lock(error_m);
  if (error == ACL_SUCCESS) return ACL_SUCCESS;
  const char* const state = aborted ? "; the stream is aborted, nothing more runs on it until it is destroyed or its device "
                                      "is reset (AIR_SIM_STICKY=0: report once)"
                                    : "";
  const aclError code = report_async(error, error_text + state);
  if (!aborted) error = ACL_SUCCESS;
  return code;
}
Failure Stream::failure() {
  std::lock_guard<std::mutex> lock(error_m);
  return error == ACL_SUCCESS ? Failure{} : Failure{error, error_text};
}
void Stream::clear_error() {
  std::lock_guard<std::mutex> lock(error_m);
  error = ACL_SUCCESS;
  aborted = false;
}

bool task_cancelled() { return t_stream && t_stream->killed; }
void task_failed(const char* what) {
  if (t_stream) t_stream->fail_with(ACL_ERROR_RT_AICORE_EXCEPTION, what);
}

void run_task(Stream& stream, const Task& task) {
  if (task.kind == Kind::event) return task.run();
  if (stream.aborted || stream.killed) return;
  Stream* const before = std::exchange(t_stream, &stream);
  if (task.kind == Kind::host) {
    task.run();
  } else {
    const SlotHeld slot(stream, task.kind);
    linger();
    if (task.kind == Kind::kernel && fires(switches().kernel_error))
      stream.fail_with(ACL_ERROR_RT_AICORE_EXCEPTION, std::string(task.name) + ": fault kernel_error was injected");
    else if (task.kind == Kind::kernel && fires(switches().hang))
      hang(stream, task.name);
    else
      task.run();
  }
  t_stream = before;
}

Stream* running_stream() { return t_stream; }

Stream* stream_of(aclrtStream handle) {
  if (handle) return static_cast<Stream*>(handle);
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.m);
  auto& slot = r.defaults[current_device()];
  if (!slot) slot = std::make_shared<Stream>(current_device(), 0, 0);
  return slot.get();
}
std::vector<std::shared_ptr<Stream>> streams_of_device(int device) {
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.m);
  std::vector<std::shared_ptr<Stream>> found;
  for (auto& [handle, stream] : r.all)
    if (device < 0 || stream->device == device) found.push_back(stream);
  for (auto& [owner, stream] : r.defaults)
    if (device < 0 || owner == device) found.push_back(stream);
  return found;
}
bool reserve_streams(int device, int count) {
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.m);
  if (r.budget_used[device] + count > switches().streams) return false;
  r.budget_used[device] += count;
  return true;
}
void release_streams(int device, int count) {
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.m);
  r.budget_used[device] -= count;
}

int submit(Stream* stream, Task task) {
  before_launch(stream->device);
  if (recording()) {
    aclError status = ACL_SUCCESS;
    if (record_task(stream, task, status)) return status;
  }
  stream->push(std::move(task));
  return ACL_SUCCESS;
}
int enqueue(void* stream, Fn kernel, const char* name) {
  return submit(stream_of(stream), {std::move(kernel), name, Kind::kernel});
}

namespace {
aclError create(aclrtStream* out, uint32_t priority, uint32_t flags) {
  const int device = current_device();
  if (!reserve_streams(device, 1))
    return fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, "device %d has no stream left: all %lld are in use by streams and graphs",
                device, (long long)switches().streams.load());
  auto stream = std::make_shared<Stream>(device, priority, flags);
  *out = stream.get();
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.m);
  r.all[stream.get()] = std::move(stream);
  return ACL_SUCCESS;
}
aclError destroy(aclrtStream handle, bool force) {
  std::shared_ptr<Stream> stream;
  {
    Registry& r = registry();
    std::lock_guard<std::mutex> lock(r.m);
    const auto found = r.all.find(static_cast<Stream*>(handle));
    if (found == r.all.end()) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a stream", handle);
    if (is_captured(found->second.get()) && !force)
      return fail(ACL_ERROR_RT_STREAM_CAPTURED, "a stream is destroyed while it is being captured");
    stream = std::move(found->second);
    r.all.erase(found);
  }
  forget_captured(stream.get());
  release_streams(stream->device, 1);
  if (force) stream->kill();
  return ACL_SUCCESS;
}
aclError synchronize(aclrtStream handle, int64_t timeout_ms) {
  Stream* s = stream_of(handle);
  if (const aclError lost = launches_ended(s->device)) return lost;
  if (is_captured(s)) return fail(ACL_ERROR_RT_STREAM_CAPTURED, "synchronising a stream that is being captured");
  if (!s->wait_idle(timeout_ms))
    return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %d did not finish within %lld ms", s->id, (long long)timeout_ms);
  return s->take_error();
}
}  // namespace
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclrtCreateStream(aclrtStream* out) {
  AIR_SIM_REFUSABLE;
  return create(out, 0, 0);
}
AIR_SIM_API aclError aclrtCreateStreamWithConfig(aclrtStream* out, uint32_t priority, uint32_t flags) {
  AIR_SIM_REFUSABLE;
  return create(out, priority, flags);
}
AIR_SIM_API aclError aclrtDestroyStream(aclrtStream handle) {
  AIR_SIM_REFUSABLE;
  return destroy(handle, false);
}
AIR_SIM_API aclError aclrtDestroyStreamForce(aclrtStream handle) {
  AIR_SIM_REFUSABLE;
  return destroy(handle, true);
}
AIR_SIM_API aclError aclrtSynchronizeStream(aclrtStream handle) {
  AIR_SIM_REFUSABLE;
  return synchronize(handle, -1);
}
AIR_SIM_API aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t timeout_ms) {
  AIR_SIM_REFUSABLE;
  return synchronize(handle, timeout_ms);
}
AIR_SIM_API aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
  AIR_SIM_REFUSABLE;
  Stream* s = stream_of(handle);
  if (is_captured(s)) return fail(ACL_ERROR_RT_STREAM_CAPTURED, "querying a stream that is being captured");
  *status = s->idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtStreamGetId(aclrtStream handle, int32_t* id) {
  AIR_SIM_REFUSABLE;
  *id = stream_of(handle)->id;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtStreamGetPriority(aclrtStream handle, uint32_t* priority) {
  AIR_SIM_REFUSABLE;
  *priority = stream_of(handle)->priority;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSetStreamFailureMode(aclrtStream handle, uint64_t mode) {
  AIR_SIM_REFUSABLE;
  if (mode > ACL_STOP_ON_FAILURE) return fail(ACL_ERROR_RT_PARAM_INVALID, "failure mode %llu", (unsigned long long)mode);
  stream_of(handle)->stop_on_failure = mode == ACL_STOP_ON_FAILURE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSetStreamOverflowSwitch(aclrtStream, uint32_t) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtGetStreamOverflowSwitch(aclrtStream, uint32_t* flag) {
  AIR_SIM_REFUSABLE;
  *flag = 0;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtSetStreamAttribute(aclrtStream, aclrtStreamAttr, aclrtStreamAttrValue*) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
