// Collectives as plain functions that run in the calling thread: what a kernel of another library (the graph engine)
// calls.  Errors are thrown as std::runtime_error.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "air_sim/runtime.h"

namespace air_sim {
class Communicator;
enum class Reduction { sum = 0, product = 1, maximum = 2, minimum = 3 };

// A communicator by the name of its group; null when there is none.
AIR_SIM_EXPORT std::shared_ptr<Communicator> find_communicator(const std::string& group);
AIR_SIM_EXPORT uint32_t rank_count(const Communicator& comm);
AIR_SIM_EXPORT uint32_t rank_of(const Communicator& comm);

// `type` is an HcclDataType, counts are elements.
AIR_SIM_EXPORT void all_reduce(Communicator&, const void* in, void* out, uint64_t count, int type, Reduction op);
AIR_SIM_EXPORT void all_gather(Communicator&, const void* in, void* out, uint64_t count, int type);
AIR_SIM_EXPORT void reduce_scatter(Communicator&, const void* in, void* out, uint64_t count, int type, Reduction op);
AIR_SIM_EXPORT void broadcast(Communicator&, void* data, uint64_t count, int type, uint32_t root);
AIR_SIM_EXPORT void send(Communicator&, const void* data, uint64_t count, int type, uint32_t to);
AIR_SIM_EXPORT void receive(Communicator&, void* data, uint64_t count, int type, uint32_t from);

// Pieces of a buffer, one for each rank, in elements.
struct Pieces {
  std::vector<uint64_t> counts, offsets;
};
AIR_SIM_EXPORT void all_to_all(Communicator&, const void* in, const Pieces& out_pieces, void* out, const Pieces& in_pieces,
                               int type);
AIR_SIM_EXPORT void all_gather_v(Communicator&, const void* in, uint64_t count, void* out, const Pieces& pieces, int type);
AIR_SIM_EXPORT void reduce_scatter_v(Communicator&, const void* in, const Pieces& pieces, void* out, int type, Reduction op);
}  // namespace air_sim
