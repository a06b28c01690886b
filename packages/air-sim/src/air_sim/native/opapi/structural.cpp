// The functions that op-plugin maps argument by argument onto one ATen operator (generated: python -m air_sim.opgen).
#include "call.h"

namespace air_sim {
static const char* const structural_rows[] = {
#include "structural.inc"
};
static const Family structural(structural_rows, sizeof(structural_rows) / sizeof(structural_rows[0]));
}  // namespace air_sim
