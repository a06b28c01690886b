// Element-wise reductions over the data types of the collectives.
#pragma once
#include <cstdint>

#include "air_sim/collectives.h"

namespace air_sim {
// Bytes of one element; throws for a type that collectives cannot move.
uint64_t element_bytes(int type);
// into[i] = into[i] op from[i].
void reduce_into(void* into, const void* from, uint64_t count, int type, Reduction op);
}  // namespace air_sim
