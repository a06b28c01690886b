// Device memory is host memory with an owner and a limit.  With AIR_SIM_PROTECT it is an arena that is mapped twice:
// the addresses that programs get are not accessible, kernels reach the same bytes through an alias.
#include "memory.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

#include "capture.h"
#include "device.h"
#include "launch_thread.h"
#include "status.h"
#include "stream.h"
#include "switches.h"

namespace air_sim {
namespace {
constexpr size_t kBlock = 512;    // granularity of a device allocation
constexpr size_t kPage = 4096;
constexpr int kPoison = 0xDD;
constexpr int kRetries = 4;       // how often a caller may repeat an allocation that was made to fail

struct Block {
  size_t bytes;
  int device;  // -1: host
};
struct Heap {
  std::mutex m;
  std::map<uintptr_t, Block> blocks;
  std::map<int, uint64_t> used;
};
Heap& heap() {
  static Heap& it = *new Heap;
  return it;
}

// The doubly mapped arena of AIR_SIM_PROTECT; `base` stays null without it.
struct Arena {
  char* base = nullptr;
  char* alias = nullptr;
  size_t bytes = 0;
  std::map<size_t, size_t> holes;  // offset -> length
};
Arena& arena() {
  static Arena& it = *new Arena;
  return it;
}
struct sigaction g_previous;
void explain_fault(int signal, siginfo_t* info, void* context) {
  const char* at = static_cast<const char*>(info->si_addr);
  if (at >= arena().base && at < arena().base + arena().bytes) {
    const char text[] = "[air-sim] the host touched device memory directly; copy it to the host first (AIR_SIM_PROTECT)\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(139);
  }
  sigaction(signal, &g_previous, nullptr);
  (void)context;  // returning repeats the access, now under the previous handler
}
bool open_arena() {
  Arena& a = arena();
  a.bytes = switches().memory * switches().devices;
  const int file = memfd_create("air-sim", 0);
  if (file < 0 || ftruncate(file, a.bytes) != 0) return false;
  void* base = mmap(nullptr, a.bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* alias = mmap(nullptr, a.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (base == MAP_FAILED || alias == MAP_FAILED) return false;
  a.base = static_cast<char*>(base);
  a.alias = static_cast<char*>(alias);
  a.holes[0] = a.bytes;
  struct sigaction action = {};
  action.sa_sigaction = explain_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &g_previous);
  return true;
}
// First fit; the caller holds the heap's mutex.
void* take_from_arena(size_t bytes) {
  static const bool open = open_arena();
  if (!open) return nullptr;
  Arena& a = arena();
  bytes = (bytes + kPage - 1) / kPage * kPage;
  for (auto hole = a.holes.begin(); hole != a.holes.end(); ++hole) {
    if (hole->second < bytes) continue;
    const size_t offset = hole->first, left = hole->second - bytes;
    a.holes.erase(hole);
    if (left) a.holes[offset + bytes] = left;
    return a.base + offset;
  }
  return nullptr;
}
void give_to_arena(void* p, size_t bytes) {
  Arena& a = arena();
  bytes = (bytes + kPage - 1) / kPage * kPage;
  size_t offset = static_cast<char*>(p) - a.base;
  auto next = a.holes.lower_bound(offset);
  if (next != a.holes.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = a.holes.erase(next);
  }
  if (next != a.holes.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  a.holes[offset] = bytes;
}

// oom@N: the N-th allocation fails, and the caller's immediate repetitions of it too, because an allocator frees its
// caches and asks again before it believes that memory is exhausted.
bool injected_oom(size_t bytes) {
  thread_local size_t failing = 0;
  thread_local int left = 0;
  if (fires(switches().oom)) {
    failing = bytes;
    left = kRetries;
    return true;
  }
  if (left > 0 && bytes == failing) {
    --left;
    return true;
  }
  left = 0;
  return false;
}

aclError allocate(void** out, size_t bytes, int device) {
  if (!out) return fail(ACL_ERROR_RT_PARAM_INVALID, "allocation without a place for the address");
  *out = nullptr;
  const size_t rounded = bytes ? (bytes + kBlock - 1) / kBlock * kBlock : kBlock;
  if (const aclError full = device < 0 ? ACL_SUCCESS : take_memory(rounded, device)) return full;
  Heap& h = heap();
  std::lock_guard<std::mutex> lock(h.m);
  void* p = nullptr;
  if (device >= 0 && switches().protect)
    p = take_from_arena(rounded);
  else if (posix_memalign(&p, kPage, rounded) != 0)
    p = nullptr;
  if (!p) {
    if (device >= 0) h.used[device] -= rounded;
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the machine has no %zu bytes left", bytes);
  }
  h.blocks[reinterpret_cast<uintptr_t>(p)] = {rounded, device};
  *out = p;
  return ACL_SUCCESS;
}

aclError release(void* p, bool host) {
  Heap& h = heap();
  std::lock_guard<std::mutex> lock(h.m);
  const auto found = h.blocks.find(reinterpret_cast<uintptr_t>(p));
  if (found == h.blocks.end() || host != (found->second.device < 0))
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not the start of a %s allocation", p, host ? "host" : "device");
  const Block block = found->second;
  if (switches().poison) memset(host_address(p), kPoison, block.bytes);
  h.blocks.erase(found);
  if (block.device >= 0) h.used[block.device] -= block.bytes;
  const Arena& a = arena();
  if (a.base && p >= a.base && p < a.base + a.bytes)
    give_to_arena(p, block.bytes);
  else
    free(p);
  return ACL_SUCCESS;
}

const std::pair<const uintptr_t, Block>* block_at(const void* address) {
  Heap& h = heap();
  auto it = h.blocks.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (it == h.blocks.begin()) return nullptr;
  --it;
  return reinterpret_cast<uintptr_t>(address) < it->first + it->second.bytes ? &*it : nullptr;
}

aclError copy(void* to, size_t capacity, const void* from, size_t bytes, aclrtStream stream, bool wait) {
  if (bytes > capacity)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "copy of %zu bytes into %zu", bytes, capacity);
  if (bytes && (!to || !from)) return fail(ACL_ERROR_RT_PARAM_INVALID, "copy from or to a null address");
  if (wait) {
    if (synchronising_is_forbidden())
      return fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "a synchronous copy while a stream is being captured");
    if (const aclError lost = launches_ended(current_device())) return lost;
    memmove(host_address(to), host_address(from), bytes);
    return ACL_SUCCESS;
  }
  return submit(stream_of(stream), {[=] {
                                      if (!noop()) memmove(host_address(to), host_address(from), bytes);
                                    },
                                    "memcpy", Kind::copy});
}
}  // namespace

void* host_address(const void* address) {
  static const Arena& a = arena();
  char* p = const_cast<char*>(static_cast<const char*>(address));
  return a.base && p >= a.base && p < a.base + a.bytes ? p - a.base + a.alias : p;
}
aclError take_memory(size_t bytes, int device) {
  if (injected_oom(bytes))
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "out of device memory: fault oom was injected at %zu bytes", bytes);
  Heap& h = heap();
  std::lock_guard<std::mutex> lock(h.m);
  if (h.used[device] + bytes > switches().memory)
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "out of device memory: %zu bytes wanted, %llu of %llu in use on device %d",
                bytes, (unsigned long long)h.used[device], (unsigned long long)switches().memory, device);
  h.used[device] += bytes;
  return ACL_SUCCESS;
}
void give_memory(size_t bytes, int device) {
  std::lock_guard<std::mutex> lock(heap().m);
  heap().used[device] -= bytes;
}
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclError aclrtMalloc(void** p, size_t bytes, aclrtMemMallocPolicy) {
  AIR_SIM_REFUSABLE;
  return allocate(p, bytes, current_device());
}
AIR_SIM_API aclError aclrtMallocAlign32(void** p, size_t bytes, aclrtMemMallocPolicy) {
  AIR_SIM_REFUSABLE;
  return allocate(p, bytes, current_device());
}
AIR_SIM_API aclError aclrtMallocHost(void** p, size_t bytes) {
  AIR_SIM_REFUSABLE;
  return allocate(p, bytes, -1);
}
AIR_SIM_API aclError aclrtMallocHostWithCfg(void** p, uint64_t bytes, aclrtMallocConfig*) {
  AIR_SIM_REFUSABLE;
  return allocate(p, bytes, -1);
}
AIR_SIM_API aclError aclrtFree(void* p) {
  AIR_SIM_REFUSABLE;
  return release(p, false);
}
AIR_SIM_API aclError aclrtFreeHost(void* p) {
  AIR_SIM_REFUSABLE;
  return release(p, true);
}
AIR_SIM_API aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free_bytes, size_t* total) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(heap().m);
  *total = switches().memory;
  *free_bytes = switches().memory - heap().used[current_device()];
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtPointerGetAttributes(const void* p, aclrtPtrAttributes* out) {
  AIR_SIM_REFUSABLE;
  memset(out, 0, sizeof *out);
  out->pageSize = kPage;
  out->location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
  std::lock_guard<std::mutex> lock(heap().m);
  if (const auto* block = block_at(p)) {
    const bool host = block->second.device < 0;
    out->location.type = host ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
    out->location.id = host ? 0 : block->second.device;
  } else if (const int device = mapped_device(p); device >= 0) {
    out->location = {static_cast<uint32_t>(device), ACL_MEM_LOCATION_TYPE_DEVICE};
  }
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtMemcpy(void* to, size_t capacity, const void* from, size_t bytes, aclrtMemcpyKind) {
  AIR_SIM_REFUSABLE;
  return copy(to, capacity, from, bytes, nullptr, true);
}
AIR_SIM_API aclError aclrtMemcpyAsync(void* to, size_t capacity, const void* from, size_t bytes, aclrtMemcpyKind,
                                      aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  return copy(to, capacity, from, bytes, stream, false);
}
AIR_SIM_API aclError aclrtMemcpyAsyncWithCondition(void* to, size_t capacity, const void* from, size_t bytes,
                                                   aclrtMemcpyKind, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  return copy(to, capacity, from, bytes, stream, false);
}
AIR_SIM_API aclError aclrtMemcpyBatch(void** to, size_t* capacity, void** from, size_t* bytes, size_t count,
                                      aclrtMemcpyBatchAttr*, size_t*, size_t, size_t* failed) {
  AIR_SIM_REFUSABLE;
  for (size_t i = 0; i < count; ++i)
    if (const aclError error = copy(to[i], capacity[i], from[i], bytes[i], nullptr, true)) {
      if (failed) *failed = i;
      return error;
    }
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtMemcpyBatchAsync(void** to, size_t* capacity, void** from, size_t* bytes, size_t count,
                                           aclrtMemcpyBatchAttr*, size_t*, size_t, size_t* failed, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  for (size_t i = 0; i < count; ++i)
    if (const aclError error = copy(to[i], capacity[i], from[i], bytes[i], stream, false)) {
      if (failed) *failed = i;
      return error;
    }
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtMemset(void* to, size_t capacity, int32_t value, size_t bytes) {
  AIR_SIM_REFUSABLE;
  if (bytes > capacity) return fail(ACL_ERROR_RT_PARAM_INVALID, "memset of %zu bytes in %zu", bytes, capacity);
  if (synchronising_is_forbidden())
    return fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "a synchronous memset while a stream is being captured");
  memset(host_address(to), value, bytes);
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtMemsetAsync(void* to, size_t capacity, int32_t value, size_t bytes, aclrtStream stream) {
  AIR_SIM_REFUSABLE;
  if (bytes > capacity) return fail(ACL_ERROR_RT_PARAM_INVALID, "memset of %zu bytes in %zu", bytes, capacity);
  return submit(stream_of(stream), {[=] {
                                      if (!noop()) memset(host_address(to), value, bytes);
                                    },
                                    "memset", Kind::copy});
}
// Page-locked or not makes no difference to a device that is the host.
AIR_SIM_API aclError aclrtHostRegister(void* p, uint64_t, aclrtHostRegisterType, void** device_address) {
  AIR_SIM_REFUSABLE;
  *device_address = p;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtHostRegisterV2(void*, uint64_t, uint32_t) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclrtHostUnregister(void*) {
  AIR_SIM_REFUSABLE;
  return ACL_SUCCESS;
}
