// Threads that are named like torch_npu's launch thread: a failed call costs the device only when the thread ends.
#include <acl/acl.h>
#include <acl/error_codes/rt_error_codes.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "air_sim/launches.h"
#include "check.h"

namespace {
constexpr int kDevice = 1;  // what happens to it lasts for the rest of the process

void become_launch_thread() {
  prctl(PR_SET_NAME, "acl_thread");
  OK(aclrtSetDevice(kDevice));
}
void fail_a_call() {
  char bytes[8] = {};
  CHECK_STATUS(aclrtMemcpyAsync(bytes, 4, bytes, 8, ACL_MEMCPY_HOST_TO_DEVICE, nullptr), ACL_ERROR_RT_PARAM_INVALID);
}
}  // namespace

TEST(a_launch_thread_that_survives_an_error_leaves_the_device_usable_and_one_that_ends_does_not) {
  std::atomic<bool> failed{false}, stop{false};
  std::thread survivor([&] {
    become_launch_thread();
    fail_a_call();
    OK(air_sim::device_lost());  // as every launch asks first
    failed = true;
    while (!stop) std::this_thread::yield();
  });
  while (!failed) std::this_thread::yield();
  OK(aclrtSetDevice(kDevice));
  OK(aclrtSynchronizeDevice());
  OK(air_sim::device_lost());
  stop = true;
  survivor.join();

  std::thread another([] {
    become_launch_thread();
    fail_a_call();
  });
  another.join();
  CHECK_STATUS(air_sim::device_lost(), ACL_ERROR_RT_PARAM_INVALID);
  CHECK(strstr(aclGetRecentErrMsg(), "Start a new process"));
  CHECK_STATUS(aclrtSynchronizeDevice(), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_STATUS(aclrtSynchronizeStream(nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_STATUS(aclrtDeviceTaskAbort(kDevice, 0), ACL_ERROR_RT_PARAM_INVALID);
  OK(aclrtSetDevice(0));
  OK(air_sim::device_lost());
  OK(aclrtSynchronizeDevice());
}

TEST(each_release_thread_may_sleep_longer_once_a_launch_thread_works) {
  std::atomic<int> named{0}, slack[2] = {};
  std::atomic<bool> stop{false};
  auto release = [&](int number) {
    prctl(PR_SET_NAME, "release_thread");
    ++named;
    while (!stop) slack[number] = prctl(PR_GET_TIMERSLACK);
  };
  std::thread first(release, 0);
  while (named < 1) std::this_thread::yield();
  std::thread second;
  std::thread([&] {
    become_launch_thread();
    while (slack[0] < 1'000'000) std::this_thread::yield();
    second = std::thread(release, 1);  // as that of another device: it gets its name while this one launches
    while (named < 2) std::this_thread::yield();
    for (int launch = 0; launch < 1000; ++launch) OK(aclrtSetDevice(kDevice));
  }).join();
  while (slack[1] < 1'000'000) std::this_thread::yield();
  stop = true;
  first.join();
  second.join();
  CHECK(prctl(PR_GET_TIMERSLACK) < 1'000'000);
}
