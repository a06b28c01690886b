// aclskOptimize: merging the kernels of a graph into super kernels.  There is nothing to merge here; the graph has to
// exist and to be complete, and it computes what it computed.
#include <mutex>

#include "capture.h"
#include "status.h"

using namespace air_sim;

AIR_SIM_API aclError aclskOptimize(aclmdlRI handle, void*) {
  AIR_SIM_REFUSABLE;
  std::lock_guard<std::mutex> lock(capture_mutex());
  const auto graph = find_graph(handle);
  if (!graph) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a graph", handle);
  if (graph->capturing) return fail(ACL_ERROR_RT_MODEL_CAPTURED, "the graph is still being captured");
  return ACL_SUCCESS;
}
