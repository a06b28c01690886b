// The switches (AIR_SIM_...) as the native code sees them; the Python side documents them in one table.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace air_sim {
struct Switches {
  // Fixed when the library is loaded.
  std::string soc, cann, count_file;
  int devices;
  uint64_t memory;
  bool protect;
  // May be changed while the program runs (air_sim_set).
  std::atomic<bool> noop, poison, verbose, sticky;
  std::atomic<int64_t> streams, events, delay_us, launch_delay_us, seed, replay_threads, slots, kernel_timeout_ms;
  // Faults still to come: 0 is none, n fires on the n-th occasion from now.
  std::atomic<int64_t> oom{0}, kernel_error{0}, hang{0};
  Switches();
  // Applies one switch by the lower-case name it has in Python; false for a name that cannot be changed.
  bool set(const std::string& name, const std::string& value);
  void set_faults(const std::string& list);
};
Switches& switches();
// True on the occasion a fault counter was waiting for.
bool fires(std::atomic<int64_t>& fault);
// A number below `bound` from this thread's sequence of the current seed.
uint64_t random_below(uint64_t bound);
}  // namespace air_sim
