// Device and host memory of the simulated devices.
#pragma once
#include <acl/acl.h>

#include <cstddef>

namespace air_sim {
// Counts memory of a device as in use, and as free again. Taking it fails where a device has no more.
aclError take_memory(size_t bytes, int device);
void give_memory(size_t bytes, int device);
// The device whose physical memory is mapped to an address, or -1.
int mapped_device(const void* address);
}  // namespace air_sim
