// The thread in which torch_npu frees what its launches held.
//
// It looks for work again and again, with pauses of a microsecond, as long as the process lives: about 15,000 times a
// second.  That is nothing on a server, and a quarter of a core of a laptop or of a CI machine.  Nobody waits for what it
// frees, so its pauses are made longer: Linux may end a pause later by the timer slack of the thread.
#pragma once

namespace air_sim {
// Slows down the release threads that there are by now.
void slow_release_threads();
}  // namespace air_sim
