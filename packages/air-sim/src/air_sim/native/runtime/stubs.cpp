// Symbols that torch_npu links to and that nothing here defines: they exist for the dynamic linker only, and say
// so when they are called.  The build writes the list (missing.inc) from what the installed wheel really asks for.
#include "air_sim/runtime.h"

AIR_SIM_API int air_sim_missing(const char* name);

#define MISSING(number, symbol)                                                       \
  extern "C" AIR_SIM_EXPORT int missing_##number() __asm__(#symbol);                  \
  extern "C" int missing_##number() { return air_sim_missing(#symbol); }
#include "missing.inc"
