// Host code as part of a stream: host functions in the stream's own thread, callbacks in the thread that subscribed.
#include <condition_variable>
#include <deque>
#include <map>

#include "status.h"
#include "stream.h"

namespace air_sim {
namespace {
// A callback on its way to the thread that processes reports.
struct Report {
  aclrtCallback call;
  void* argument;
  std::shared_ptr<std::atomic<bool>> finished;
};
struct Subscriber {
  std::condition_variable arrived;
  std::deque<Report> reports;
};
struct Reports {
  std::mutex m;
  std::map<uint64_t, Subscriber> threads;
  std::map<Stream*, uint64_t> of_stream;
};
Reports& reports() {
  static Reports& it = *new Reports;
  return it;
}
uint64_t this_thread() { return static_cast<uint64_t>(pthread_self()); }

aclError launch_callback(aclrtCallback call, void* argument, bool block, Stream* stream) {
  uint64_t thread;
  {
    Reports& r = reports();
    std::lock_guard<std::mutex> lock(r.m);
    const auto found = r.of_stream.find(stream);
    if (found == r.of_stream.end())
      return fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "no thread has subscribed to callbacks of stream %d", stream->id);
    thread = found->second;
  }
  const auto deliver = [=] {
    const auto finished = std::make_shared<std::atomic<bool>>(false);
    {
      Reports& r = reports();
      std::lock_guard<std::mutex> lock(r.m);
      Subscriber& subscriber = r.threads[thread];
      subscriber.reports.push_back({call, argument, finished});
      subscriber.arrived.notify_one();
    }
    if (block) wait_until(*stream, [&] { return finished->load(); });
  };
  return submit(stream, {deliver, "callback", Kind::host});
}
}  // namespace
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc call, void* argument) {
  AIR_SIM_REFUSABLE;
  return submit(stream_of(stream), {[=] { call(argument); }, "host function", Kind::host});
}
AIR_SIM_API aclError aclrtLaunchCallback(aclrtCallback call, void* argument, aclrtCallbackBlockType type, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  return launch_callback(call, argument, type == ACL_CALLBACK_BLOCK, stream_of(stream));
}
AIR_SIM_API aclError aclrtSubscribeReport(uint64_t thread, aclrtStream handle) {
  AIR_SIM_REFUSABLE;
  Stream* stream = stream_of(handle);
  Reports& r = reports();
  std::lock_guard<std::mutex> lock(r.m);
  if (r.of_stream.count(stream)) return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is subscribed already", stream->id);
  r.of_stream[stream] = thread;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream handle) {
  AIR_SIM_REFUSABLE;
  Stream* stream = stream_of(handle);
  Reports& r = reports();
  std::lock_guard<std::mutex> lock(r.m);
  const auto found = r.of_stream.find(stream);
  if (found == r.of_stream.end() || found->second != thread)
    return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "the thread has not subscribed to stream %d", stream->id);
  r.of_stream.erase(found);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtProcessReport(int32_t timeout_ms) {
  AIR_SIM_REFUSABLE;
  Report report;
  {
    Reports& r = reports();
    std::unique_lock<std::mutex> lock(r.m);
    Subscriber& me = r.threads[this_thread()];
    const auto any = [&] { return !me.reports.empty(); };
    if (timeout_ms < 0)
      me.arrived.wait(lock, any);
    else if (!me.arrived.wait_for(lock, std::chrono::milliseconds(timeout_ms), any))
      return ACL_ERROR_RT_REPORT_TIMEOUT;
    report = std::move(me.reports.front());
    me.reports.pop_front();
  }
  report.call(report.argument);
  report.finished->store(true);
  return ACL_SUCCESS;
}
// Writes and waits of one 64-bit value in device memory, in stream order.
AIR_SIM_API aclError aclrtValueWrite(void* address, uint64_t value, uint32_t, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  auto* at = static_cast<std::atomic<uint64_t>*>(host_address(address));
  return submit(stream_of(stream), {[=] { at->store(value); }, "value write", Kind::event});
}
AIR_SIM_API aclError aclrtValueWait(void* address, uint64_t value, uint32_t flag, aclrtStream handle) {
  AIR_SIM_REFUSABLE;
  auto* at = static_cast<std::atomic<uint64_t>*>(host_address(address));
  Stream* stream = stream_of(handle);
  // The comparisons of the flag: at least, equal, any common bit, no common bit.
  const auto ready = [=] {
    const uint64_t now = at->load();
    switch (flag & 3) {
      case 0: return static_cast<int64_t>(now - value) >= 0;
      case 1: return now == value;
      case 2: return (now & value) != 0;
      default: return ~(now | value) != 0;
    }
  };
  return submit(stream, {[=] { wait_until(*stream, ready); }, "value wait", Kind::event});
}
// A prefetch into a cache that does not exist.
AIR_SIM_API aclError aclrtCmoAsync(void*, size_t, aclrtCmoType, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  return submit(stream_of(stream), {[] {}, "prefetch", Kind::copy});
}
