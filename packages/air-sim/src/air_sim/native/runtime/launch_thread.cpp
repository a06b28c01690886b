// Notices that a launch thread of torch_npu has ended, and keeps the reason.
#include "launch_thread.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "air_sim/launches.h"
#include "device.h"
#include "release_thread.h"
#include "status.h"
#include "switches.h"

namespace air_sim {
namespace {
constexpr char kName[] = "acl_thread";  // as torch_npu calls it
// How long a thread that was told of an error may take to end or to launch again. One that launches has survived the
// error; one that does neither waits in torch_npu's queue, which has stopped: for the program it has ended as well.
constexpr auto kPatience = std::chrono::seconds(2);

struct State {
  std::mutex m;
  std::condition_variable changed;
  bool failing = false, ended = false;
  aclError code = ACL_ERROR_INTERNAL_ERROR;
  std::string reason = "torch_npu gave the reason when it ended";
};
State& state(int device) {
  static State* const all = new State[kMaxDevices];
  return all[device];
}
// Devices with a failing or an ended launch thread: what every launch and synchronisation looks at first.
std::atomic<int> g_troubles{0};

struct Watch {
  int device = -1;
  ~Watch() {
    if (device < 0) return;
    State& s = state(device);
    std::lock_guard<std::mutex> lock(s.m);
    if (!s.failing) ++g_troubles;
    s.failing = s.ended = true;
    s.changed.notify_all();
  }
};
thread_local Watch t_watch;
thread_local unsigned t_launches = 0;

void look(int device) {
  char name[16] = {};
  if (prctl(PR_GET_NAME, name) == 0 && strcmp(name, kName) == 0) t_watch.device = device;
}

// The thread works on after a failed call; `s` is locked.
aclError survived(State& s) {
  if (std::exchange(s.failing, false)) --g_troubles;
  s.ended = false;
  s.changed.notify_all();
  return ACL_SUCCESS;
}
}  // namespace

void watch_launch_thread(int device) {
  // torch_npu names its threads while they already work, and those of each device at a time of their own, so one look at
  // the beginning is not enough: there is one at every launch whose number is a power of two.
  ++t_launches;
  if ((t_launches & (t_launches - 1)) != 0) return;
  if (t_watch.device < 0) look(device);
  if (t_watch.device >= 0) slow_release_threads();
}
void before_launch(int device) {
  watch_launch_thread(device);
  const int64_t delay = switches().launch_delay_us;
  if (delay > 0 && in_launch_thread()) usleep(delay);
}
bool in_launch_thread() { return t_watch.device >= 0; }

void note_failed_call(aclError code, const std::string& text) {
  if (!in_launch_thread()) look(current_device());
  if (!in_launch_thread()) return;
  State& s = state(t_watch.device);
  std::lock_guard<std::mutex> lock(s.m);
  if (!std::exchange(s.failing, true)) ++g_troubles;
  s.code = code;
  s.reason = text;
}

aclError launches_ended(int device) {
  if (g_troubles.load(std::memory_order_relaxed) == 0) return ACL_SUCCESS;
  State& s = state(in_launch_thread() ? t_watch.device : device);
  std::unique_lock<std::mutex> lock(s.m);
  if (in_launch_thread()) return survived(s);
  if (!s.failing) return ACL_SUCCESS;
  if (!s.changed.wait_for(lock, kPatience, [&] { return s.ended || !s.failing; })) s.ended = true;
  if (!s.ended) return ACL_SUCCESS;
  const aclError code = s.code;
  const std::string text = s.reason;
  lock.unlock();
  return report_async(code, "device " + std::to_string(device) + " cannot be used any more in this process: torch_npu's launch "
                            "thread has ended after a failed call, and torch_npu drops silently what is launched since then, "
                            "on an Ascend too. Start a new process (under TASK_QUEUE_ENABLE=0 a failed call leaves it usable). "
                            "The failed call: " + text);
}
int device_lost() { return launches_ended(current_device()); }
}  // namespace air_sim
