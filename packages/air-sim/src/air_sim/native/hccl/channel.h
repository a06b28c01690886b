// The wires between the ranks of a communicator: one ring buffer in shared memory for every ordered pair of ranks.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace air_sim {
// What a message is, so that ranks that disagree get an error instead of each other's bytes.
struct Header {
  uint32_t operation;
  uint32_t type;
  uint64_t bytes;
};
constexpr uint64_t kRingBytes = 128 * 1024;
struct Ring {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  alignas(64) char data[kRingBytes];
};

// The shared memory of one communicator, mapped by every rank.  Fresh pages are zero, which is the initial state.
class Segment {
 public:
  // Attaches a rank; does not wait for the others.
  Segment(const std::string& name, uint32_t ranks, uint32_t rank);
  ~Segment();
  Segment(const Segment&) = delete;
  // Waits until every rank is attached; false when that takes longer than `timeout_s`.
  bool wait_for_all(int64_t timeout_s);
  Ring& ring(uint32_t from, uint32_t to) { return rings_[from * ranks_ + to]; }
  // True when the process of a rank does not exist any more.
  bool is_gone(uint32_t rank) const;
  const uint32_t ranks_, rank_;

 private:
  struct Front {
    std::atomic<uint32_t> attached;
    std::atomic<int32_t> pids[1024];
  };
  std::string name_;
  size_t bytes_;
  void* base_;
  Front* front_;
  Ring* rings_;
};

// One message on its way out of or into this rank.
class Transfer {
 public:
  static Transfer send(uint32_t to, const void* data, const Header& header);
  static Transfer receive(uint32_t from, void* data, const Header& header);
  // Moves what the ring allows; true when something moved.
  bool advance(Segment& segment);
  bool is_done() const { return header_done_ == sizeof(Header) && done_ == expected_.bytes; }
  uint32_t peer() const { return peer_; }
  // Transfers of one key share a ring.
  std::pair<bool, uint32_t> key() const { return {out_, peer_}; }

 private:
  Transfer(bool out, uint32_t peer, char* data, const Header& header)
      : out_(out), peer_(peer), data_(data), expected_(header), seen_(header) {}
  uint64_t move(Ring& ring, char* data, uint64_t bytes) const;
  bool out_;
  uint32_t peer_;
  char* data_;
  Header expected_, seen_;
  uint64_t header_done_ = 0, done_ = 0;
};

// Runs all transfers to their end, in whatever order the rings allow, so that ranks that send to each other at the
// same time cannot block.  Throws std::runtime_error when a peer disagrees, dies, or takes longer than `timeout_s`.
void exchange(Segment& segment, std::vector<Transfer> transfers, int64_t timeout_s);
}  // namespace air_sim
