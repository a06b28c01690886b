// A communicator: the ranks of a group and the wires between them.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "air_sim/collectives.h"
#include "channel.h"

namespace air_sim {
class Communicator {
 public:
  Communicator(const std::string& segment, const std::string& name, uint32_t ranks, uint32_t rank, int64_t timeout_s)
      : name(name), segment_name(segment), timeout_s(timeout_s), segment(segment, ranks, rank) {}
  const std::string name, segment_name;
  const int64_t timeout_s;
  Segment segment;
  // One collective at a time: the wires carry one conversation.
  std::mutex m;
  std::atomic<int> error{0};  // an HcclResult
  uint32_t ranks() const { return segment.ranks_; }
  uint32_t rank() const { return segment.rank_; }
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

// Creates a communicator and makes it known by its handle and its name; does not wait for the other ranks.
CommunicatorPtr add_communicator(const std::string& segment, const std::string& name, uint32_t ranks, uint32_t rank,
                                 int64_t timeout_s);
CommunicatorPtr communicator_of(void* handle);
bool remove_communicator(void* handle);

void reduce(Communicator&, const void* in, void* out, uint64_t count, int type, Reduction op, uint32_t root);
void scatter(Communicator&, const void* in, void* out, uint64_t count, int type, uint32_t root);
void barrier(Communicator&);
struct PointToPoint {
  bool is_send;
  void* data;
  uint64_t count;
  int type;
  uint32_t peer;
};
void batch(Communicator&, const std::vector<PointToPoint>& items);
}  // namespace air_sim
