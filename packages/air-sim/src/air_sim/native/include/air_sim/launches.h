// Whether work may still be launched: asked before a launch is prepared.
#pragma once
#include "air_sim/runtime.h"

namespace air_sim {
// Not 0 when this process can no longer use the calling thread's device, with the text set: torch_npu would silently drop
// what is launched now (runtime/launch_thread.h).
AIR_SIM_EXPORT int device_lost();
// True in torch_npu's launch thread: an error that is returned there costs the process its device.
AIR_SIM_EXPORT bool in_launch_thread();
}  // namespace air_sim
