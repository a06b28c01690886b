// Events: the budget that graphs share with programs, and what they carry from one stream to another.
#pragma once

namespace air_sim {
bool reserve_events(int device, int count);
void release_events(int device, int count);
// After a device starts anew, events recorded before no longer carry the failure of their stream.
void forget_failures();
}  // namespace air_sim
