// The collectives, made of messages between pairs of ranks.  Reductions go through the ranks in order, so every rank
// gets the same bits and a repetition gets them again.
#include <cstring>
#include <map>
#include <stdexcept>

#include "communicator.h"
#include "reduction.h"
#include "third_party/hccl/inc/hccl/hccl_types.h"

namespace air_sim {
namespace {
struct Registry {
  std::mutex m;
  std::map<void*, CommunicatorPtr> by_handle;
};
Registry& registry() {
  static Registry& it = *new Registry;
  return it;
}
char* at(void* base, uint64_t bytes) { return static_cast<char*>(host_address(base)) + bytes; }
const char* at(const void* base, uint64_t bytes) { return static_cast<const char*>(host_address(base)) + bytes; }

Header header(int operation, int type, uint64_t bytes) {
  return {static_cast<uint32_t>(operation), static_cast<uint32_t>(type), bytes};
}
Pieces even(uint64_t count, uint32_t ranks) {
  Pieces pieces;
  for (uint32_t r = 0; r < ranks; ++r) {
    pieces.counts.push_back(count);
    pieces.offsets.push_back(count * r);
  }
  return pieces;
}
// A buffer of `count` elements in as many nearly equal pieces as there are ranks.
Pieces split(uint64_t count, uint32_t ranks) {
  Pieces pieces;
  for (uint32_t r = 0; r < ranks; ++r) {
    const uint64_t start = count * r / ranks, end = count * (r + 1) / ranks;
    pieces.counts.push_back(end - start);
    pieces.offsets.push_back(start);
  }
  return pieces;
}
// Everybody's contribution to this rank's piece, reduced in the order of the ranks.
void reduce_piece(Communicator& comm, const void* in, const Pieces& pieces, char* out, int type, Reduction op, int operation) {
  const uint64_t width = element_bytes(type);
  const uint32_t ranks = comm.ranks(), me = comm.rank();
  const uint64_t mine = pieces.counts[me] * width;
  std::vector<char> gathered(mine * ranks);
  std::vector<Transfer> transfers;
  for (uint32_t r = 0; r < ranks; ++r) {
    const char* piece = at(in, pieces.offsets[r] * width);
    if (r == me) {
      memcpy(gathered.data() + mine * me, piece, mine);
      continue;
    }
    transfers.push_back(Transfer::send(r, piece, header(operation, type, pieces.counts[r] * width)));
    transfers.push_back(Transfer::receive(r, gathered.data() + mine * r, header(operation, type, mine)));
  }
  exchange(comm.segment, std::move(transfers), comm.timeout_s);
  for (uint32_t r = 1; r < ranks; ++r) reduce_into(gathered.data(), gathered.data() + mine * r, pieces.counts[me], type, op);
  memcpy(out, gathered.data(), mine);
}
void gather_pieces(Communicator& comm, const char* in, void* out, const Pieces& pieces, int type, int operation) {
  const uint64_t width = element_bytes(type);
  const uint32_t me = comm.rank();
  const uint64_t mine = pieces.counts[me] * width;
  std::vector<Transfer> transfers;
  for (uint32_t r = 0; r < comm.ranks(); ++r) {
    if (r == me) continue;
    transfers.push_back(Transfer::send(r, in, header(operation, type, mine)));
    transfers.push_back(
        Transfer::receive(r, at(out, pieces.offsets[r] * width), header(operation, type, pieces.counts[r] * width)));
  }
  exchange(comm.segment, std::move(transfers), comm.timeout_s);
  memmove(at(out, pieces.offsets[me] * width), in, mine);
}
}  // namespace

CommunicatorPtr add_communicator(const std::string& segment, const std::string& name, uint32_t ranks, uint32_t rank,
                                 int64_t timeout_s) {
  auto comm = std::make_shared<Communicator>(segment, name, ranks, rank, timeout_s);
  std::lock_guard<std::mutex> lock(registry().m);
  registry().by_handle[comm.get()] = comm;
  return comm;
}
CommunicatorPtr communicator_of(void* handle) {
  std::lock_guard<std::mutex> lock(registry().m);
  const auto found = registry().by_handle.find(handle);
  return found == registry().by_handle.end() ? nullptr : found->second;
}
bool remove_communicator(void* handle) {
  std::lock_guard<std::mutex> lock(registry().m);
  return registry().by_handle.erase(handle) != 0;
}
CommunicatorPtr find_communicator(const std::string& group) {
  std::lock_guard<std::mutex> lock(registry().m);
  for (const auto& [handle, comm] : registry().by_handle)
    if (comm->name == group) return comm;
  return nullptr;
}
uint32_t rank_count(const Communicator& comm) { return comm.ranks(); }
uint32_t rank_of(const Communicator& comm) { return comm.rank(); }

void all_reduce(Communicator& comm, const void* in, void* out, uint64_t count, int type, Reduction op) {
  std::lock_guard<std::mutex> lock(comm.m);
  const Pieces pieces = split(count, comm.ranks());
  const uint32_t me = comm.rank();
  std::vector<char> piece(pieces.counts[me] * element_bytes(type) + 1);
  reduce_piece(comm, in, pieces, piece.data(), type, op, HCCL_CMD_ALLREDUCE);
  gather_pieces(comm, piece.data(), out, pieces, type, HCCL_CMD_ALLREDUCE);
}
void all_gather_v(Communicator& comm, const void* in, uint64_t, void* out, const Pieces& pieces, int type) {
  std::lock_guard<std::mutex> lock(comm.m);
  gather_pieces(comm, at(in, 0), out, pieces, type, HCCL_CMD_ALLGATHER);
}
void all_gather(Communicator& comm, const void* in, void* out, uint64_t count, int type) {
  all_gather_v(comm, in, count, out, even(count, comm.ranks()), type);
}
void reduce_scatter_v(Communicator& comm, const void* in, const Pieces& pieces, void* out, int type, Reduction op) {
  std::lock_guard<std::mutex> lock(comm.m);
  reduce_piece(comm, in, pieces, at(out, 0), type, op, HCCL_CMD_REDUCE_SCATTER);
}
void reduce_scatter(Communicator& comm, const void* in, void* out, uint64_t count, int type, Reduction op) {
  reduce_scatter_v(comm, in, even(count, comm.ranks()), out, type, op);
}
void broadcast(Communicator& comm, void* data, uint64_t count, int type, uint32_t root) {
  std::lock_guard<std::mutex> lock(comm.m);
  const Header h = header(HCCL_CMD_BROADCAST, type, count * element_bytes(type));
  std::vector<Transfer> transfers;
  for (uint32_t r = 0; comm.rank() == root && r < comm.ranks(); ++r)
    if (r != root) transfers.push_back(Transfer::send(r, at(data, 0), h));
  if (comm.rank() != root) transfers.push_back(Transfer::receive(root, at(data, 0), h));
  exchange(comm.segment, std::move(transfers), comm.timeout_s);
}
void reduce(Communicator& comm, const void* in, void* out, uint64_t count, int type, Reduction op, uint32_t root) {
  std::lock_guard<std::mutex> lock(comm.m);
  Pieces all_at_root;
  for (uint32_t r = 0; r < comm.ranks(); ++r) {
    all_at_root.counts.push_back(r == root ? count : 0);
    all_at_root.offsets.push_back(0);
  }
  reduce_piece(comm, in, all_at_root, at(out, 0), type, op, HCCL_CMD_REDUCE);
}
void scatter(Communicator& comm, const void* in, void* out, uint64_t count, int type, uint32_t root) {
  std::lock_guard<std::mutex> lock(comm.m);
  const uint64_t bytes = count * element_bytes(type);
  const Header h = header(HCCL_CMD_SCATTER, type, bytes);
  std::vector<Transfer> transfers;
  if (comm.rank() != root) {
    transfers.push_back(Transfer::receive(root, at(out, 0), h));
  } else {
    for (uint32_t r = 0; r < comm.ranks(); ++r)
      if (r != root) transfers.push_back(Transfer::send(r, at(in, bytes * r), h));
    memmove(at(out, 0), at(in, bytes * root), bytes);
  }
  exchange(comm.segment, std::move(transfers), comm.timeout_s);
}
void all_to_all(Communicator& comm, const void* in, const Pieces& outgoing, void* out, const Pieces& incoming, int type) {
  std::lock_guard<std::mutex> lock(comm.m);
  const uint64_t width = element_bytes(type);
  const uint32_t me = comm.rank();
  std::vector<Transfer> transfers;
  for (uint32_t r = 0; r < comm.ranks(); ++r) {
    if (r == me) continue;
    transfers.push_back(
        Transfer::send(r, at(in, outgoing.offsets[r] * width), header(HCCL_CMD_ALLTOALLV, type, outgoing.counts[r] * width)));
    transfers.push_back(Transfer::receive(r, at(out, incoming.offsets[r] * width),
                                          header(HCCL_CMD_ALLTOALLV, type, incoming.counts[r] * width)));
  }
  exchange(comm.segment, std::move(transfers), comm.timeout_s);
  memmove(at(out, incoming.offsets[me] * width), at(in, outgoing.offsets[me] * width), outgoing.counts[me] * width);
}
void barrier(Communicator& comm) {
  char nothing = 0;
  std::lock_guard<std::mutex> lock(comm.m);
  std::vector<Transfer> transfers;
  for (uint32_t r = 0; r < comm.ranks(); ++r) {
    if (r == comm.rank()) continue;
    transfers.push_back(Transfer::send(r, &nothing, header(HCCL_CMD_BARRIER, 0, 0)));
    transfers.push_back(Transfer::receive(r, &nothing, header(HCCL_CMD_BARRIER, 0, 0)));
  }
  exchange(comm.segment, std::move(transfers), comm.timeout_s);
}
void batch(Communicator& comm, const std::vector<PointToPoint>& items) {
  std::lock_guard<std::mutex> lock(comm.m);
  std::vector<Transfer> transfers;
  for (const PointToPoint& item : items) {
    const Header h = header(HCCL_CMD_SEND, item.type, item.count * element_bytes(item.type));
    transfers.push_back(item.is_send ? Transfer::send(item.peer, at(item.data, 0), h)
                                     : Transfer::receive(item.peer, at(item.data, 0), h));
  }
  exchange(comm.segment, std::move(transfers), comm.timeout_s);
}
void send(Communicator& comm, const void* data, uint64_t count, int type, uint32_t to) {
  batch(comm, {{true, const_cast<void*>(data), count, type, to}});
}
void receive(Communicator& comm, void* data, uint64_t count, int type, uint32_t from) {
  batch(comm, {{false, data, count, type, from}});
}
}  // namespace air_sim
