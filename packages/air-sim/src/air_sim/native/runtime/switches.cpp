// Reads the switches from the environment once, and changes the changeable ones later.
#include "switches.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "air_sim/runtime.h"
#include "status.h"

namespace air_sim {
namespace {
std::string text(const char* name, const char* otherwise) {
  const char* value = getenv((std::string("AIR_SIM_") + name).c_str());
  return value && *value ? value : otherwise;
}
int64_t number(const char* name, int64_t otherwise) {
  const std::string value = text(name, "");
  return value.empty() ? otherwise : strtoll(value.c_str(), nullptr, 10);
}
}  // namespace

Switches::Switches()
    : soc(text("SOC", "Ascend910B1")),
      cann(text("CANN", "8.5.0")),
      count_file(text("COUNT_FILE", "")),
      devices(static_cast<int>(number("DEVICES", 1))),
      memory(number("MEMORY", 32ll << 30)),
      protect(number("PROTECT", 0) != 0),
      noop(number("NOOP", 0) != 0),
      poison(number("POISON", 0) != 0),
      verbose(number("VERBOSE", 0) != 0),
      sticky(number("STICKY", 1) != 0),
      streams(number("STREAMS", 1984)),
      events(number("EVENTS", 65535)),
      delay_us(number("DELAY_US", 0)),
      launch_delay_us(number("LAUNCH_DELAY_US", 0)),
      seed(number("SEED", 0)),
      replay_threads(number("REPLAY_THREADS", 2)),
      slots(number("SLOTS", 0)),
      kernel_timeout_ms(number("KERNEL_TIMEOUT_MS", 0)) {
  set_faults(text("FAULT", ""));
}

void Switches::set_faults(const std::string& list) {
  oom = kernel_error = hang = 0;
  std::vector<std::pair<std::string, int64_t>> refusals;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    part.erase(0, part.find_first_not_of(' '));
    const size_t at = part.find_first_of("@=");
    if (at == std::string::npos) continue;
    const std::string name = part.substr(0, at);
    const int64_t value = strtoll(part.c_str() + at + 1, nullptr, 10);
    const std::map<std::string, std::atomic<int64_t>*> known = {{"oom", &oom},
                                                                {"kernel_error", &kernel_error},
                                                                {"hang", &hang},
                                                                {"stream_limit", &streams},
                                                                {"event_limit", &events}};
    const auto found = known.find(name);
    if (found != known.end()) *found->second = value;
    else refusals.emplace_back(name, value);
  }
  set_refusals(std::move(refusals));
}

bool Switches::set(const std::string& name, const std::string& value) {
  const std::map<std::string, std::atomic<int64_t>*> numbers = {
      {"streams", &streams}, {"events", &events},
      {"delay_us", &delay_us}, {"launch_delay_us", &launch_delay_us}, {"seed", &seed},
      {"replay_threads", &replay_threads}, {"slots", &slots},
      {"kernel_timeout_ms", &kernel_timeout_ms}};
  const std::map<std::string, std::atomic<bool>*> flags = {
      {"noop", &noop}, {"poison", &poison}, {"verbose", &verbose}, {"sticky", &sticky}};
  if (name == "fault") {
    set_faults(value);
  } else if (const auto n = numbers.find(name); n != numbers.end()) {
    *n->second = strtoll(value.c_str(), nullptr, 10);
  } else if (const auto f = flags.find(name); f != flags.end()) {
    *f->second = strtoll(value.c_str(), nullptr, 10) != 0;
  } else {
    return false;
  }
  return true;
}

// Never destroyed: stream threads may still look at them while the process exits.
Switches& switches() {
  static Switches& all = *new Switches;
  return all;
}

bool noop() {
  static const std::atomic<bool>& flag = switches().noop;
  return flag.load(std::memory_order_relaxed);
}

bool fires(std::atomic<int64_t>& fault) {
  if (fault.load(std::memory_order_relaxed) <= 0) return false;
  return fault.fetch_sub(1) == 1;
}

uint64_t random_below(uint64_t bound) {
  static std::atomic<uint64_t> threads{0};
  thread_local int64_t seeded = -1;
  thread_local uint64_t state = 0;
  const int64_t seed = switches().seed.load(std::memory_order_relaxed);
  if (seeded != seed) {
    seeded = seed;
    state = (static_cast<uint64_t>(seed) + 1) * 0x9E3779B97F4A7C15ull + ++threads * 0xD1B54A32D192ED03ull;
  }
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return bound ? state % bound : 0;
}
}  // namespace air_sim

// Changes a switch of the running process; 0 when the name is one that can change.
AIR_SIM_API int air_sim_set(const char* name, const char* value) {
  return air_sim::switches().set(name, value) ? 0 : 1;
}
