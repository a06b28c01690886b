// Shared memory segments, rings and the exchange of messages.
#include "channel.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <stdexcept>

#include "air_sim/runtime.h"

namespace air_sim {
namespace {
constexpr uint32_t kMostRanks = 1024;
constexpr int kSpins = 200;  // rounds without progress before the thread sleeps between them

void pause(int idle_rounds) {
  if (idle_rounds < kSpins) return;
  const timespec nap = {0, idle_rounds < 4 * kSpins ? 20000 : 200000};
  nanosleep(&nap, nullptr);
}
int64_t now_s() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}
const char* name_of(uint32_t operation) {
  static const std::map<uint32_t, const char*> names = {
      {1, "broadcast"}, {2, "all-reduce"}, {3, "reduce"}, {4, "send/receive"}, {6, "all-gather"},
      {7, "reduce-scatter"}, {8, "all-to-all"}, {12, "scatter"}, {103, "barrier"}};
  const auto found = names.find(operation);
  return found == names.end() ? "another operation" : found->second;
}
}  // namespace

Segment::Segment(const std::string& name, uint32_t ranks, uint32_t rank) : ranks_(ranks), rank_(rank), name_(name) {
  if (ranks == 0 || ranks > kMostRanks || rank >= ranks)
    throw std::runtime_error("rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  const size_t front = (sizeof(Front) + 4095) / 4096 * 4096;
  bytes_ = front + sizeof(Ring) * ranks * ranks;
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, bytes_) != 0)
    throw std::runtime_error("no shared memory for the communicator: " + std::string(strerror(errno)));
  base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (base_ == MAP_FAILED) throw std::runtime_error("no address for the communicator: " + std::string(strerror(errno)));
  front_ = static_cast<Front*>(base_);
  rings_ = reinterpret_cast<Ring*>(static_cast<char*>(base_) + front);
  front_->pids[rank] = getpid();
  front_->attached.fetch_add(1);
}
Segment::~Segment() {
  if (rank_ == 0 && front_->attached < ranks_) shm_unlink(name_.c_str());
  munmap(base_, bytes_);
}
bool Segment::wait_for_all(int64_t timeout_s) {
  const int64_t until = now_s() + timeout_s;
  for (int idle = 0; front_->attached < ranks_; ++idle) {
    if (now_s() > until) return false;
    pause(idle);
  }
  // Everybody holds a mapping: the name has served its purpose, and no crash can leave it behind any more.
  if (rank_ == 0) shm_unlink(name_.c_str());
  return true;
}
bool Segment::is_gone(uint32_t rank) const {
  const int32_t pid = front_->pids[rank];
  return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

Transfer Transfer::send(uint32_t to, const void* data, const Header& header) {
  return Transfer(true, to, const_cast<char*>(static_cast<const char*>(data)), header);
}
Transfer Transfer::receive(uint32_t from, void* data, const Header& header) {
  return Transfer(false, from, static_cast<char*>(data), header);
}
// Copies up to `bytes` between `data` and the ring, around its end; returns how many.
uint64_t Transfer::move(Ring& ring, char* data, uint64_t bytes) const {
  const uint64_t written = ring.written.load(std::memory_order_acquire);
  const uint64_t read = ring.read.load(std::memory_order_acquire);
  const uint64_t count = std::min(bytes, out_ ? kRingBytes - (written - read) : written - read);
  if (count == 0) return 0;
  const uint64_t at = (out_ ? written : read) % kRingBytes;
  const uint64_t first = std::min(count, kRingBytes - at);
  if (out_) {
    memcpy(ring.data + at, data, first);
    memcpy(ring.data, data + first, count - first);
    ring.written.store(written + count, std::memory_order_release);
  } else {
    memcpy(data, ring.data + at, first);
    memcpy(data + first, ring.data, count - first);
    ring.read.store(read + count, std::memory_order_release);
  }
  return count;
}
bool Transfer::advance(Segment& segment) {
  Ring& ring = out_ ? segment.ring(segment.rank_, peer_) : segment.ring(peer_, segment.rank_);
  uint64_t moved = 0;
  if (header_done_ < sizeof(Header)) {
    moved = move(ring, reinterpret_cast<char*>(&seen_) + header_done_, sizeof(Header) - header_done_);
    header_done_ += moved;
    if (header_done_ < sizeof(Header)) return moved != 0;
    if (seen_.operation != expected_.operation || seen_.bytes != expected_.bytes || seen_.type != expected_.type)
      throw std::runtime_error("rank " + std::to_string(peer_) + " is in " + name_of(seen_.operation) + " with " +
                               std::to_string(seen_.bytes) + " bytes of type " + std::to_string(seen_.type) + " while rank " +
                               std::to_string(segment.rank_) + " is in " + name_of(expected_.operation) + " and expects " +
                               std::to_string(expected_.bytes) + " bytes of type " + std::to_string(expected_.type));
  }
  if (done_ < expected_.bytes) {
    const uint64_t now = move(ring, data_ + done_, expected_.bytes - done_);
    done_ += now;
    moved += now;
  }
  return moved != 0;
}

void exchange(Segment& segment, std::vector<Transfer> transfers, int64_t timeout_s) {
  int64_t until = now_s() + timeout_s;
  for (int idle = 0; !transfers.empty(); ++idle) {
    // Only the oldest unfinished message to (or from) a peer may use the ring: messages of one pair do not overtake.
    std::map<std::pair<bool, uint32_t>, bool> busy;
    bool moved = false;
    for (Transfer& transfer : transfers) {
      if (busy[transfer.key()]) continue;
      busy[transfer.key()] = true;
      moved |= transfer.advance(segment);
    }
    transfers.erase(std::remove_if(transfers.begin(), transfers.end(), [](const Transfer& t) { return t.is_done(); }),
                    transfers.end());
    if (moved) {
      idle = 0;
      until = now_s() + timeout_s;
      continue;
    }
    if (transfers.empty()) return;
    if (task_cancelled()) throw std::runtime_error("the stream was destroyed during the collective");
    const uint32_t peer = transfers.front().peer();
    if (idle > kSpins && segment.is_gone(peer))
      throw std::runtime_error("the process of rank " + std::to_string(peer) + " has ended during the collective");
    if (now_s() > until)
      throw std::runtime_error("rank " + std::to_string(peer) + " did not take part within " + std::to_string(timeout_s) +
                               " s (HCCL_EXEC_TIMEOUT)");
    pause(idle);
  }
}
}  // namespace air_sim
