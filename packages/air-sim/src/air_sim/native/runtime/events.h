// Events: the budget that graphs share with programs.
#pragma once

namespace air_sim {
bool reserve_events(int device, int count);
void release_events(int device, int count);
}  // namespace air_sim
