// Reserving addresses and mapping physical memory into them: what the allocator's expandable segments are made of.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include "device.h"
#include "memory.h"
#include "status.h"

namespace air_sim {
namespace {
// Physical memory is an anonymous file; mapping it is mapping the file.
struct Physical {
  int file;
  size_t bytes;
  int device;
};
struct Mapped {
  size_t bytes;
  int device;
};
struct Space {
  std::mutex m;
  std::map<void*, size_t> reserved;
  std::map<void*, Mapped> mapped;
};
Space& space() {
  static Space& it = *new Space;
  return it;
}
}  // namespace

int mapped_device(const void* address) {
  std::lock_guard<std::mutex> lock(space().m);
  auto after = space().mapped.upper_bound(const_cast<void*>(address));
  if (after == space().mapped.begin()) return -1;
  const auto& [start, found] = *std::prev(after);
  return address < static_cast<const char*>(start) + found.bytes ? found.device : -1;
}
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclrtReserveMemAddress(void** out, size_t bytes, size_t, void* wanted, uint64_t) {
  AIR_SIM_REFUSABLE;
  void* p = mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no %zu bytes of addresses left", bytes);
  std::lock_guard<std::mutex> lock(space().m);
  space().reserved[p] = bytes;
  *out = p;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtReleaseMemAddress(void* p) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(space().m);
  const auto found = space().reserved.find(p);
  if (found == space().reserved.end()) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a reserved address", p);
  munmap(p, found->second);
  space().reserved.erase(found);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtMallocPhysical(aclrtDrvMemHandle* out, size_t bytes, const aclrtPhysicalMemProp*, uint64_t) {
  AIR_SIM_REFUSABLE;
  const int device = current_device();
  if (const aclError full = take_memory(bytes, device)) return full;
  const int file = memfd_create("air-sim-physical", 0);
  if (file < 0 || ftruncate(file, bytes) != 0) {
    give_memory(bytes, device);
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no %zu bytes left", bytes);
  }
  *out = reinterpret_cast<aclrtDrvMemHandle>(new Physical{file, bytes, device});
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  AIR_SIM_REFUSABLE;
  auto* physical = reinterpret_cast<Physical*>(handle);
  close(physical->file);
  give_memory(physical->bytes, physical->device);
  delete physical;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtMapMem(void* p, size_t bytes, size_t offset, aclrtDrvMemHandle handle, uint64_t) {
  AIR_SIM_REFUSABLE;
  const auto* physical = reinterpret_cast<Physical*>(handle);
  if (offset + bytes > physical->bytes)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "mapping %zu bytes at %zu of %zu", bytes, offset, physical->bytes);
  if (mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->file, offset) == MAP_FAILED)
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "mapping %zu bytes: %s", bytes, strerror(errno));
  std::lock_guard<std::mutex> lock(space().m);
  space().mapped[p] = {bytes, physical->device};
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtUnmapMem(void* p) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(space().m);
  const auto found = space().mapped.find(p);
  if (found == space().mapped.end()) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a mapped address", p);
  mmap(p, found->second.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  space().mapped.erase(found);
  return ACL_SUCCESS;
}
