// The runtime through its ABI, without torch: what ThreadSanitizer and AddressSanitizer run over.
#include <acl/acl.h>
#include <acl/error_codes/rt_error_codes.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "air_sim/runtime.h"
#include "check.h"

AIR_SIM_API int air_sim_set(const char* name, const char* value);

namespace {
using air_sim::enqueue;

struct Stream {
  explicit Stream(uint32_t priority = 0) { OK(aclrtCreateStreamWithConfig(&handle, priority, 0)); }
  ~Stream() { aclrtDestroyStream(handle); }
  operator aclrtStream() const { return handle; }
  aclrtStream handle = nullptr;
};
struct Event {
  explicit Event(uint32_t flags = 0) { OK(aclrtCreateEventExWithFlag(&handle, flags)); }
  ~Event() { aclrtDestroyEvent(handle); }
  operator aclrtEvent() const { return handle; }
  aclrtEvent handle = nullptr;
};
// Puts the switch back at the end of the test.
struct Switch {
  Switch(const char* name, const char* value, const char* after) : name(name), after(after) { OK(air_sim_set(name, value)); }
  ~Switch() { air_sim_set(name, after); }
  const char *name, *after;
};
}  // namespace

TEST(tasks_of_a_stream_run_in_order) {
  Stream stream;
  int last = 0;  // written by one thread after the other: a data race here is a bug of the runtime
  for (int i = 1; i <= 2000; ++i)
    OK(enqueue(stream, [&last, i] { CHECK(last == i - 1); last = i; }, "count"));
  OK(aclrtSynchronizeStream(stream));
  CHECK(last == 2000);
}
TEST(many_threads_share_a_stream) {
  Stream stream;
  int count = 0;
  std::thread threads[4];
  for (auto& thread : threads)
    thread = std::thread([&] {
      for (int i = 0; i < 500; ++i) OK(enqueue(stream, [&count] { ++count; }, "count"));
      OK(aclrtSynchronizeStream(stream));
    });
  for (auto& thread : threads) thread.join();
  OK(aclrtSynchronizeStream(stream));
  CHECK(count == 2000);
}
TEST(an_event_orders_two_streams) {
  Stream a, b;
  int value = 0;
  for (int i = 0; i < 200; ++i) {
    Event there, back;
    OK(enqueue(a, [&value] { ++value; }, "write"));
    OK(aclrtRecordEvent(there, a));
    OK(aclrtStreamWaitEvent(b, there));
    OK(enqueue(b, [&value, i] { CHECK(value == 2 * i + 1); ++value; }, "write"));
    OK(aclrtRecordEvent(back, b));
    OK(aclrtStreamWaitEvent(a, back));
    OK(aclrtSynchronizeEvent(back));  // events may go before their waits ran: the wait keeps what it needs
  }
  OK(aclrtSynchronizeStream(a));
  CHECK(value == 400);
}
TEST(copies_are_asynchronous_and_bounded) {
  Stream stream;
  void* device = nullptr;
  OK(aclrtMalloc(&device, 1024, ACL_MEM_MALLOC_HUGE_FIRST));
  char out[1024], in[1024];
  memset(in, 7, sizeof in);
  OK(aclrtMemcpyAsync(device, 1024, in, 1024, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  OK(aclrtMemcpyAsync(out, 1024, device, 1024, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  OK(aclrtSynchronizeStream(stream));
  CHECK(memcmp(in, out, 1024) == 0);
  CHECK_STATUS(aclrtMemcpy(device, 8, in, 9, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
  OK(aclrtFree(device));
  CHECK_STATUS(aclrtFree(device), ACL_ERROR_RT_PARAM_INVALID);
}
TEST(branches_of_a_graph_run_on_several_threads_and_join) {
  Switch threads("replay_threads", "4", "2"), seed("seed", "3", "0");
  Stream origin, left, right;
  Event fork, from_left, from_right;
  int base = 0, l = 0, r = 0, sum = 0;
  OK(aclmdlRICaptureBegin(origin, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  OK(enqueue(origin, [&] { ++base; }, "base"));
  OK(aclrtRecordEvent(fork, origin));
  OK(aclrtStreamWaitEvent(left, fork));
  OK(aclrtStreamWaitEvent(right, fork));
  for (int i = 0; i < 3; ++i) {
    OK(enqueue(left, [&] { l += base; }, "left"));
    OK(enqueue(right, [&] { r += 2 * base; }, "right"));
  }
  OK(aclrtRecordEvent(from_left, left));
  OK(aclrtRecordEvent(from_right, right));
  OK(aclrtStreamWaitEvent(origin, from_left));
  OK(aclrtStreamWaitEvent(origin, from_right));
  OK(enqueue(origin, [&] { sum = l + r; }, "sum"));
  aclmdlRI graph = nullptr;
  OK(aclmdlRICaptureEnd(origin, &graph));
  CHECK(base == 0);
  int wanted = 0;
  for (int i = 1; i <= 100; ++i) {
    wanted += 9 * i;
    OK(aclmdlRIExecuteAsync(graph, origin));
    OK(aclrtSynchronizeStream(origin));
    CHECK(sum == wanted);
  }
  OK(aclmdlRIDestroy(graph));
}
TEST(a_graph_may_be_destroyed_while_it_runs) {
  Stream stream;
  std::atomic<int> runs{0};
  for (int i = 0; i < 50; ++i) {
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    for (int k = 0; k < 10; ++k) OK(enqueue(stream, [&runs] { ++runs; }, "count"));
    aclmdlRI graph = nullptr;
    OK(aclmdlRICaptureEnd(stream, &graph));
    OK(aclmdlRIExecuteAsync(graph, stream));
    OK(aclmdlRIDestroy(graph));
  }
  OK(aclrtSynchronizeStream(stream));
  CHECK(runs == 500);
}
TEST(capture_errors_have_the_drivers_codes) {
  Stream stream, other;
  Event event, outside;
  aclmdlRI graph = nullptr;
  CHECK_STATUS(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  OK(aclrtRecordEvent(outside, other));
  OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK_STATUS(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), ACL_ERROR_RT_STREAM_CAPTURED);
  CHECK_STATUS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CAPTURED);
  CHECK_STATUS(aclrtSynchronizeDevice(), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  CHECK_STATUS(aclrtStreamWaitEvent(stream, outside), ACL_ERROR_RT_CAPTURE_DEPENDENCY);
  OK(enqueue(stream, [] {}, "work"));
  OK(aclrtRecordEvent(event, stream));
  CHECK_STATUS(aclrtSynchronizeEvent(event), ACL_ERROR_RT_EVENT_CAPTURED);
  OK(aclrtStreamWaitEvent(other, event));
  OK(enqueue(other, [] {}, "forked"));
  CHECK_STATUS(aclmdlRICaptureEnd(other, &graph), ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED);
  std::thread([&] { CHECK_STATUS(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD); }).join();
  CHECK_STATUS(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_UNJOINED);
  OK(aclmdlRIDestroy(graph));
  CHECK_STATUS(aclmdlRIExecuteAsync(graph, stream), ACL_ERROR_RT_PARAM_INVALID);
  OK(aclrtSynchronizeDevice());
}
TEST(an_update_is_ordered_by_an_external_event) {
  Stream stream, updates;
  Event released(ACL_EVENT_EXTERNAL);
  std::atomic<int> seen{0};
  OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  OK(aclrtStreamWaitEvent(stream, released));
  OK(aclrtResetEvent(released, stream));
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  OK(enqueue(stream, [&seen] { seen = -1; }, "old"));
  aclrtTaskGrp group = nullptr;
  OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  aclmdlRI graph = nullptr;
  OK(aclmdlRICaptureEnd(stream, &graph));
  for (int i = 1; i <= 100; ++i) {
    OK(aclmdlRIExecuteAsync(graph, stream));
    OK(aclmdlRICaptureTaskUpdateBegin(updates, group));
    OK(enqueue(updates, [&seen, i] { seen = i; }, "new"));
    CHECK_STATUS(enqueue(updates, [] {}, "too many"), ACL_ERROR_RT_MODEL_UPDATE_FAILED);
    OK(aclmdlRICaptureTaskUpdateEnd(updates));
    OK(aclrtRecordEvent(released, updates));
    OK(aclrtSynchronizeStream(stream));
    CHECK(seen == i);
  }
  OK(aclmdlRIDestroy(graph));
  CHECK_STATUS(aclmdlRICaptureTaskUpdateBegin(updates, group), ACL_ERROR_RT_PARAM_INVALID);
}
TEST(a_failed_kernel_stops_its_stream_when_told_to) {
  Stream stream;
  OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
  bool ran = false;
  OK(enqueue(stream, [] { air_sim::task_failed("broken"); }, "bad"));
  OK(enqueue(stream, [&ran] { ran = true; }, "good"));
  CHECK_STATUS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  CHECK(strstr(aclGetRecentErrMsg(), "broken") != nullptr);
  CHECK_STATUS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  CHECK(!ran);
  OK(aclrtDeviceTaskAbort(0, 0));
  OK(enqueue(stream, [&ran] { ran = true; }, "good"));
  OK(aclrtSynchronizeStream(stream));
  CHECK(ran);
}
TEST(a_stream_that_waits_for_a_failed_one_fails_with_it) {
  Switch fault("fault", "kernel_error@1", "");
  Stream failing, waiting;
  Event event;
  bool used = false;
  OK(aclrtSetStreamFailureMode(waiting, ACL_STOP_ON_FAILURE));
  OK(enqueue(failing, [] {}, "fails"));
  OK(aclrtRecordEvent(event, failing));
  OK(aclrtStreamWaitEvent(waiting, event));
  OK(enqueue(waiting, [&used] { used = true; }, "uses what was not computed"));
  CHECK_STATUS(aclrtSynchronizeStream(waiting), ACL_ERROR_RT_AICORE_EXCEPTION);
  CHECK(!used);
  CHECK_STATUS(aclrtSynchronizeStream(failing), ACL_ERROR_RT_AICORE_EXCEPTION);
}
TEST(a_hanging_kernel_can_be_waited_for_with_a_timeout_and_aborted) {
  Stream stream;
  Switch hang("fault", "hang@1", "");
  OK(enqueue(stream, [] {}, "kernel"));
  CHECK_STATUS(aclrtSynchronizeStreamWithTimeout(stream, 50), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  OK(aclrtDeviceTaskAbort(0, 0));
  OK(aclrtSynchronizeStream(stream));
}
TEST(a_free_slot_goes_to_the_higher_priority) {
  Switch one("slots", "1", "0");
  Stream busy(4), low(7), high(0);
  std::atomic<bool> go{false};
  std::vector<int> order;  // guarded by the one slot
  OK(enqueue(busy, [&] { while (!go) usleep(100); }, "busy"));
  usleep(20000);
  OK(enqueue(low, [&] { order.push_back(7); }, "low"));
  usleep(20000);
  OK(enqueue(high, [&] { order.push_back(0); }, "high"));
  usleep(20000);
  go = true;
  OK(aclrtSynchronizeDevice());
  CHECK((order == std::vector<int>{0, 7}));
}
TEST(callbacks_run_in_the_thread_that_subscribed) {
  Stream stream;
  CHECK_STATUS(aclrtLaunchCallback([](void*) {}, nullptr, ACL_CALLBACK_BLOCK, stream), ACL_ERROR_RT_STREAM_NO_CB_REG);
  static std::atomic<int> called;
  static std::atomic<uint64_t> where;
  called = 0;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> thread_id{0};
  std::thread reporter([&] {
    thread_id = static_cast<uint64_t>(pthread_self());
    while (!stop) aclrtProcessReport(5);
  });
  while (!thread_id) usleep(100);
  OK(aclrtSubscribeReport(thread_id, stream));
  const auto call = [](void* add) {
    where = static_cast<uint64_t>(pthread_self());
    called += static_cast<int>(reinterpret_cast<intptr_t>(add));
  };
  bool after = false;
  OK(aclrtLaunchCallback(call, reinterpret_cast<void*>(5), ACL_CALLBACK_BLOCK, stream));
  OK(enqueue(stream, [&after] { after = called == 5; }, "after"));
  OK(aclrtSynchronizeStream(stream));
  CHECK(after && where == thread_id);
  OK(aclrtUnSubscribeReport(thread_id, stream));
  stop = true;
  reporter.join();
}
TEST(limits_are_errors_that_pass) {
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
  void* memory = nullptr;
  {
    Switch streams("streams", "0", "1984"), events("events", "0", "65535"), oom("fault", "oom@1", "");
    CHECK_STATUS(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
    OK(air_sim_set("streams", "0"));
    CHECK_STATUS(aclrtCreateStream(&stream), ACL_ERROR_RT_NO_STREAM_RESOURCE);
    CHECK_STATUS(aclrtCreateEvent(&event), ACL_ERROR_RT_NO_EVENT_RESOURCE);
  }
  OK(aclrtMalloc(&memory, 512, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtFree(memory));
  OK(aclrtCreateStream(&stream));
  OK(aclrtDestroyStream(stream));
}
TEST(devices_have_streams_and_memory_of_their_own) {
  size_t free0 = 0, free1 = 0, total = 0;
  OK(aclrtSetDevice(1));
  void* memory = nullptr;
  OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &free1, &total));
  OK(aclrtSetDevice(0));
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &free0, &total));
  CHECK(free0 - free1 == 1 << 20);
  OK(aclrtFree(memory));
  CHECK_STATUS(aclrtSetDevice(2), ACL_ERROR_RT_INVALID_DEVICEID);
}
TEST(streams_can_be_destroyed_by_force_while_they_wait) {
  Stream never;
  Event external(ACL_EVENT_EXTERNAL);
  aclrtStream waiting = nullptr;
  OK(aclrtCreateStream(&waiting));
  OK(aclrtStreamWaitEvent(waiting, external));
  OK(enqueue(waiting, [] { CHECK(false); }, "never"));
  OK(aclrtDestroyStreamForce(waiting));
}
