// aclnnReselectStaticKernel: looks again at which static kernels are installed.  Kernels here compute the same with and
// without, so what is observable is the number of kernels found.
#include <dirent.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "air_sim/runtime.h"

namespace {
constexpr int kSuccess = 0, kInvalidParameter = 161002;
std::atomic<int> g_selected{0};

bool is_folder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}
template <class Visit>
void for_each_entry(const std::string& folder, Visit visit) {
  DIR* open = opendir(folder.c_str());
  if (!open) return;
  while (const dirent* entry = readdir(open))
    if (entry->d_name[0] != '.') visit(folder + "/" + entry->d_name);
  closedir(open);
}
int select_from(const std::string& library) {
  int found = 0;
  for_each_entry(library + "/static_kernel/ai_core", [&](const std::string& package) {
    for_each_entry(package + "/kernels", [&](const std::string&) { ++found; });
  });
  g_selected = found;
  return kSuccess;
}
}  // namespace

AIR_SIM_API int aclnnReselectStaticKernel() {
  AIR_SIM_ENTRY;
  const char* library = getenv("ASCEND_OPP_PATH");
  if (!library || !is_folder(library)) {
    air_sim::set_error("aclnnReselectStaticKernel: ASCEND_OPP_PATH is not a folder");
    return kInvalidParameter;
  }
  return select_from(library);
}
AIR_SIM_API int aclnnReselectStaticKernelWithPath(const char* library) {
  AIR_SIM_ENTRY;
  if (!library || !is_folder(library)) {
    air_sim::set_error("aclnnReselectStaticKernelWithPath: %s is not a folder", library ? library : "(null)");
    return kInvalidParameter;
  }
  return select_from(library);
}
// Static kernels found by the last selection.
AIR_SIM_API int air_sim_static_kernels() { return g_selected; }
