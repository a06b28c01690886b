// Device and host memory of the simulated devices.
#pragma once
#include <cstddef>

namespace air_sim {
// The device that owns an address, or -1.
int device_of_address(const void* address);
}  // namespace air_sim
