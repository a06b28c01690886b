// The HCCL functions of the ABI: check the arguments, then put the collective on the stream.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>

#include "communicator.h"
#include "reduction.h"
#include "third_party/hccl/inc/hccl/hccl.h"

namespace air_sim {
namespace {
constexpr int64_t kExecTimeoutS = 1836, kConnectTimeoutS = 120;  // what HCCL waits by default

int64_t seconds(const char* variable, int64_t otherwise) {
  const char* value = getenv(variable);
  return value && *value ? strtoll(value, nullptr, 10) : otherwise;
}
HcclResult refuse(HcclResult code, const std::string& text) {
  set_error("HCCL: %s (error %d)", text.c_str(), static_cast<int>(code));
  return code;
}

// Puts a collective on the stream.  What the body throws becomes the stream's and the communicator's error.
template <class Body>
HcclResult launch(HcclComm handle, aclrtStream stream, const char* name, Body body) {
  const CommunicatorPtr comm = communicator_of(handle);
  if (!comm) return refuse(HCCL_E_PARA, std::string(name) + " with a communicator that does not exist");
  const int status = enqueue(stream, [comm, name, body] {
    if (noop()) return;
    try {
      body(*comm);
    } catch (const std::exception& problem) {
      comm->error = HCCL_E_REMOTE;
      task_failed((std::string(name) + " of group " + comm->name + ": " + problem.what()).c_str());
    }
  }, name);
  return status == 0 ? HCCL_SUCCESS : HCCL_E_RUNTIME;
}
HcclResult checked_type(HcclDataType type) {
  try {
    element_bytes(type);
    return HCCL_SUCCESS;
  } catch (const std::runtime_error& problem) {
    return refuse(HCCL_E_NOT_SUPPORT, problem.what());
  }
}
#define AIR_SIM_CHECK_TYPE(type) \
  if (const HcclResult bad = checked_type(type)) return bad

HcclResult connect(const std::string& segment, const HcclCommConfig* config, uint32_t ranks, uint32_t rank, HcclComm* out) {
  std::string name = config && config->hcclCommName[0] ? config->hcclCommName : segment.substr(1);
  int64_t timeout_s = seconds("HCCL_EXEC_TIMEOUT", kExecTimeoutS);
  if (config && config->hcclExecTimeOut > 0) timeout_s = config->hcclExecTimeOut;
  try {
    const CommunicatorPtr comm = add_communicator(segment, name, ranks, rank, timeout_s);
    const int64_t patience = seconds("HCCL_CONNECT_TIMEOUT", kConnectTimeoutS);
    if (!comm->segment.wait_for_all(patience)) {
      remove_communicator(comm.get());
      return refuse(HCCL_E_TIMEOUT, "not all " + std::to_string(ranks) + " ranks of group " + name + " came within " +
                                        std::to_string(patience) + " s (HCCL_CONNECT_TIMEOUT)");
    }
    *out = comm.get();
  } catch (const std::runtime_error& problem) {
    return refuse(HCCL_E_MEMORY, problem.what());
  }
  return HCCL_SUCCESS;
}
std::string segment_of(const HcclRootInfo* info) { return std::string(info->internal, strnlen(info->internal, 200)); }

// Counts and displacements of the V variants, read when the call is made.
Pieces pieces(const void* counts, const void* offsets, uint32_t ranks) {
  const auto* c = static_cast<const uint64_t*>(counts);
  const auto* o = static_cast<const uint64_t*>(offsets);
  return {{c, c + ranks}, {o, o + ranks}};
}
uint32_t ranks_of(HcclComm handle) {
  const CommunicatorPtr comm = communicator_of(handle);
  return comm ? comm->ranks() : 0;
}
Reduction reduction(HcclReduceOp op) { return static_cast<Reduction>(op); }
}  // namespace
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API HcclResult HcclGetRootInfo(HcclRootInfo* info) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  static std::atomic<int> made{0};
  memset(info, 0, sizeof *info);
  snprintf(info->internal, sizeof info->internal, "/air-sim-hccl-%d-%d-%08x", getpid(), ++made, std::random_device()());
  return HCCL_SUCCESS;
}
AIR_SIM_API HcclResult HcclGetRootInfoScalable(HcclRootInfo* info) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  return HcclGetRootInfo(info);
}
AIR_SIM_API HcclResult HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfo* info, uint32_t rank, HcclComm* out) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  return connect(segment_of(info), nullptr, ranks, rank, out);
}
AIR_SIM_API HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo* info, uint32_t rank,
                                                  const HcclCommConfig* config, HcclComm* out) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  return connect(segment_of(info), config, ranks, rank, out);
}
AIR_SIM_API HcclResult HcclCommInitRootInfoScalable(uint32_t ranks, uint32_t, const HcclRootInfo* infos, uint32_t rank,
                                                    uint32_t, const HcclCommConfig* config, HcclComm* out) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  return connect(segment_of(infos), config, ranks, rank, out);
}
AIR_SIM_API HcclResult HcclCommInitAll(uint32_t count, int32_t*, HcclComm* out) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  HcclRootInfo info;
  HcclGetRootInfo(&info);
  const std::string segment = segment_of(&info);
  for (uint32_t rank = 0; rank < count; ++rank)
    out[rank] = add_communicator(segment, segment.substr(1) + "-" + std::to_string(rank), count, rank,
                                 seconds("HCCL_EXEC_TIMEOUT", kExecTimeoutS)).get();
  for (uint32_t rank = 0; rank < count; ++rank) communicator_of(out[rank])->segment.wait_for_all(0);
  return HCCL_SUCCESS;
}
AIR_SIM_API HcclResult HcclCreateSubCommConfig(HcclComm* parent, uint32_t ranks, uint32_t*, uint64_t id, uint32_t rank,
                                               HcclCommConfig* config, HcclComm* out) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  const CommunicatorPtr comm = communicator_of(*parent);
  if (!comm) return refuse(HCCL_E_PARA, "a part of a communicator that does not exist");
  return connect(comm->segment_name + "-" + std::to_string(id), config, ranks, rank, out);
}
AIR_SIM_API HcclResult HcclCommDestroy(HcclComm comm) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  return remove_communicator(comm) ? HCCL_SUCCESS : refuse(HCCL_E_PARA, "destroying a communicator that does not exist");
}
AIR_SIM_API HcclResult HcclGetCommName(HcclComm handle, char* out) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  const CommunicatorPtr comm = communicator_of(handle);
  if (!comm) return refuse(HCCL_E_PARA, "the name of a communicator that does not exist");
  snprintf(out, COMM_NAME_MAX_LENGTH, "%s", comm->name.c_str());
  return HCCL_SUCCESS;
}
AIR_SIM_API HcclResult HcclGetRankSize(HcclComm comm, uint32_t* out) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  *out = ranks_of(comm);
  return *out ? HCCL_SUCCESS : HCCL_E_PARA;
}
AIR_SIM_API HcclResult HcclGetRankId(HcclComm handle, uint32_t* out) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  const CommunicatorPtr comm = communicator_of(handle);
  if (!comm) return HCCL_E_PARA;
  *out = comm->rank();
  return HCCL_SUCCESS;
}
AIR_SIM_API HcclResult HcclGetCommAsyncError(HcclComm handle, HcclResult* out) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  const CommunicatorPtr comm = communicator_of(handle);
  if (!comm) return HCCL_E_PARA;
  *out = static_cast<HcclResult>(comm->error.load());
  return HCCL_SUCCESS;
}
AIR_SIM_API uint32_t HcclGetCommConfigCapability() {
  AIR_SIM_ENTRY;
  return HCCL_COMM_CONFIG_RESERVED;
}
AIR_SIM_API const char* HcclGetErrorString(HcclResult code) {
  AIR_SIM_ENTRY;
  static thread_local char text[32];
  snprintf(text, sizeof text, "HCCL error %d", static_cast<int>(code));
  return text;
}
AIR_SIM_API HcclResult HcclSetConfig(HcclConfig, HcclConfigValue) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  return HCCL_SUCCESS;
}

AIR_SIM_API HcclResult HcclAllReduce(void* in, void* out, uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm comm,
                                     aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  return launch(comm, stream, "HcclAllReduce", [=](Communicator& c) { all_reduce(c, in, out, count, type, reduction(op)); });
}
AIR_SIM_API HcclResult HcclAllGather(void* in, void* out, uint64_t count, HcclDataType type, HcclComm comm, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  return launch(comm, stream, "HcclAllGather", [=](Communicator& c) { all_gather(c, in, out, count, type); });
}
AIR_SIM_API HcclResult HcclAllGatherV(void* in, uint64_t count, void* out, const void* counts, const void* offsets,
                                      HcclDataType type, HcclComm comm, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  const Pieces parts = pieces(counts, offsets, ranks_of(comm));
  return launch(comm, stream, "HcclAllGatherV", [=](Communicator& c) { all_gather_v(c, in, count, out, parts, type); });
}
AIR_SIM_API HcclResult HcclReduceScatter(void* in, void* out, uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm comm,
                                         aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  return launch(comm, stream, "HcclReduceScatter",
                [=](Communicator& c) { reduce_scatter(c, in, out, count, type, reduction(op)); });
}
AIR_SIM_API HcclResult HcclReduceScatterV(void* in, const void* counts, const void* offsets, void* out, uint64_t,
                                          HcclDataType type, HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  const Pieces parts = pieces(counts, offsets, ranks_of(comm));
  return launch(comm, stream, "HcclReduceScatterV",
                [=](Communicator& c) { reduce_scatter_v(c, in, parts, out, type, reduction(op)); });
}
AIR_SIM_API HcclResult HcclBroadcast(void* data, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                                     aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  return launch(comm, stream, "HcclBroadcast", [=](Communicator& c) { broadcast(c, data, count, type, root); });
}
AIR_SIM_API HcclResult HcclReduce(void* in, void* out, uint64_t count, HcclDataType type, HcclReduceOp op, uint32_t root,
                                  HcclComm comm, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  return launch(comm, stream, "HcclReduce", [=](Communicator& c) { reduce(c, in, out, count, type, reduction(op), root); });
}
AIR_SIM_API HcclResult HcclScatter(void* in, void* out, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                                   aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  return launch(comm, stream, "HcclScatter", [=](Communicator& c) { scatter(c, in, out, count, type, root); });
}
AIR_SIM_API HcclResult HcclAlltoAll(const void* in, uint64_t send_count, HcclDataType type, const void* out, uint64_t receive_count,
                                    HcclDataType, HcclComm comm, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  Pieces outgoing, incoming;
  for (uint32_t r = 0; r < ranks_of(comm); ++r) {
    outgoing.counts.push_back(send_count);
    outgoing.offsets.push_back(send_count * r);
    incoming.counts.push_back(receive_count);
    incoming.offsets.push_back(receive_count * r);
  }
  return launch(comm, stream, "HcclAlltoAll",
                [=](Communicator& c) { all_to_all(c, in, outgoing, const_cast<void*>(out), incoming, type); });
}
AIR_SIM_API HcclResult HcclAlltoAllV(const void* in, const void* send_counts, const void* send_offsets, HcclDataType type,
                                     const void* out, const void* receive_counts, const void* receive_offsets, HcclDataType,
                                     HcclComm comm, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  const uint32_t ranks = ranks_of(comm);
  const Pieces outgoing = pieces(send_counts, send_offsets, ranks), incoming = pieces(receive_counts, receive_offsets, ranks);
  return launch(comm, stream, "HcclAlltoAllV",
                [=](Communicator& c) { all_to_all(c, in, outgoing, const_cast<void*>(out), incoming, type); });
}
AIR_SIM_API HcclResult HcclAlltoAllVC(const void* in, const void* matrix, HcclDataType type, const void* out, HcclDataType,
                                      HcclComm handle, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  const CommunicatorPtr comm = communicator_of(handle);
  if (!comm) return refuse(HCCL_E_PARA, "HcclAlltoAllVC with a communicator that does not exist");
  const auto* counts = static_cast<const uint64_t*>(matrix);
  const uint32_t ranks = comm->ranks(), me = comm->rank();
  Pieces outgoing, incoming;
  uint64_t sent = 0, received = 0;
  for (uint32_t r = 0; r < ranks; ++r) {
    outgoing.counts.push_back(counts[me * ranks + r]);
    outgoing.offsets.push_back(sent);
    incoming.counts.push_back(counts[r * ranks + me]);
    incoming.offsets.push_back(received);
    sent += outgoing.counts.back();
    received += incoming.counts.back();
  }
  return launch(handle, stream, "HcclAlltoAllVC",
                [=](Communicator& c) { all_to_all(c, in, outgoing, const_cast<void*>(out), incoming, type); });
}
AIR_SIM_API HcclResult HcclSend(void* data, uint64_t count, HcclDataType type, uint32_t to, HcclComm comm, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  return launch(comm, stream, "HcclSend", [=](Communicator& c) { send(c, data, count, type, to); });
}
AIR_SIM_API HcclResult HcclRecv(void* data, uint64_t count, HcclDataType type, uint32_t from, HcclComm comm, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  AIR_SIM_CHECK_TYPE(type);
  return launch(comm, stream, "HcclRecv", [=](Communicator& c) { receive(c, data, count, type, from); });
}
AIR_SIM_API HcclResult HcclBatchSendRecv(HcclSendRecvItem* items, uint32_t count, HcclComm comm, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  std::vector<PointToPoint> all;
  for (uint32_t i = 0; i < count; ++i) {
    AIR_SIM_CHECK_TYPE(items[i].dataType);
    all.push_back({items[i].sendRecvType == HCCL_SEND, items[i].buf, items[i].count, items[i].dataType, items[i].remoteRank});
  }
  return launch(comm, stream, "HcclBatchSendRecv", [=](Communicator& c) { batch(c, all); });
}
AIR_SIM_API HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  AIR_SIM_ENTRY_OR(HCCL_E_INTERNAL);
  return launch(comm, stream, "HcclBarrier", [](Communicator& c) { barrier(c); });
}

#undef AIR_SIM_CHECK_TYPE
