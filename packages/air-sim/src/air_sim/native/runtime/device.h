// The current device of a thread, and what is set per device.
#pragma once
#include <cstdint>

namespace air_sim {
constexpr int kMaxDevices = 64;
// The calling thread's device; 0 before it chose one.
int current_device();
void use_device(int device);
// How long a kernel may take before the device gives it up.
int64_t kernel_timeout_ms(int device);
}  // namespace air_sim
