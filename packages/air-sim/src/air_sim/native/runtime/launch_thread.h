// The thread from which torch_npu launches, and what is left of a device when that thread has ended.
//
// With its task queue torch_npu launches everything of a device from one thread.  When a call fails there, the thread
// ends, the next use of the queue raises once, and from then on torch_npu drops silently what it is given: results would
// be whatever their memory holds.  So the end of such a thread is noticed here, and every later launch and
// synchronisation of the device is an error.
#pragma once
#include <acl/acl.h>

#include <string>

#include "air_sim/launches.h"

namespace air_sim {
// Looks, now and then, whether the calling thread is torch_npu's launch thread of a device; if so, the release threads that
// torch_npu starts with it are slowed down.
void watch_launch_thread(int device);
// Before a launch: watches, and holds torch_npu's launch thread up as long as the switch launch_delay_us says, so that
// what the host has launched and what the runtime knows of it lie apart, as they do under load.
void before_launch(int device);
// A call of this thread failed.
void note_failed_call(aclError code, const std::string& text);
// The error for everything that is asked of the device after its launch thread has ended; ACL_SUCCESS before.
aclError launches_ended(int device);
}  // namespace air_sim
