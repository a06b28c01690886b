// Gives torch_npu's release threads a timer slack. Without privileges only a thread itself may change its slack, so each
// gets a signal.
#include "release_thread.h"

#include <csignal>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace air_sim {
namespace {
constexpr char kReleaseName[] = "release_thread";  // as torch_npu calls it
constexpr unsigned long kSlackNs = 1'000'000;
constexpr int kSignal = SIGURG;  // a program that has no handler for it, and a debugger, ignore it

void slow_down(int) {
  const int kept = errno;
  prctl(PR_SET_TIMERSLACK, kSlackNs);
  errno = kept;
}
// False if the program uses the signal itself.
bool handled() {
  struct sigaction now {};
  if (sigaction(kSignal, nullptr, &now) != 0) return false;
  if (now.sa_handler == slow_down) return true;
  if (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) return false;
  struct sigaction ours {};
  ours.sa_handler = slow_down;
  ours.sa_flags = SA_RESTART;
  return sigaction(kSignal, &ours, nullptr) == 0;
}
}  // namespace

void slow_release_threads() {
  std::error_code error;  // nothing may be thrown through the ABI
  for (std::filesystem::directory_iterator task("/proc/self/task", error), end; !error && task != end; task.increment(error)) {
    std::string name;  // empty for a thread that has ended meanwhile
    std::getline(std::ifstream(task->path() / "comm"), name);
    if (name != kReleaseName) continue;
    if (handled()) syscall(SYS_tgkill, getpid(), std::stoi(task->path().filename().string()), kSignal);
  }
}
}  // namespace air_sim
