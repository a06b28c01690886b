// Collectives between threads of one process, each a rank: what the sanitizers can see of the wires.
#include <acl/acl.h>

#include <thread>
#include <vector>

#include "check.h"
#include "third_party/hccl/inc/hccl/hccl.h"

namespace {
constexpr uint32_t kRanks = 3;

template <class Body>
void on_every_rank(Body body) {
  HcclComm comms[kRanks];
  int32_t devices[kRanks] = {0, 0, 0};
  OK(HcclCommInitAll(kRanks, devices, comms));
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      aclrtStream stream = nullptr;
      OK(aclrtSetDevice(0));
      OK(aclrtCreateStream(&stream));
      body(rank, comms[rank], stream);
      OK(aclrtSynchronizeStream(stream));
      OK(aclrtDestroyStream(stream));
    });
  for (auto& thread : threads) thread.join();
  for (HcclComm comm : comms) OK(HcclCommDestroy(comm));
}
}  // namespace

TEST(all_reduce_sums_over_more_than_the_wires_hold) {
  on_every_rank([](uint32_t rank, HcclComm comm, aclrtStream stream) {
    std::vector<float> in(300001, static_cast<float>(rank + 1)), out(in.size());
    OK(HcclAllReduce(in.data(), out.data(), in.size(), HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    OK(aclrtSynchronizeStream(stream));
    for (const float value : out) CHECK(value == 6.0f);
  });
}
TEST(everybody_sends_to_everybody_at_once) {
  on_every_rank([](uint32_t rank, HcclComm comm, aclrtStream stream) {
    const uint64_t count = 100000;
    std::vector<int32_t> in(count * kRanks, static_cast<int32_t>(rank)), out(in.size());
    OK(HcclAlltoAll(in.data(), count, HCCL_DATA_TYPE_INT32, out.data(), count, HCCL_DATA_TYPE_INT32, comm, stream));
    OK(aclrtSynchronizeStream(stream));
    for (size_t i = 0; i < out.size(); ++i) CHECK(out[i] == static_cast<int32_t>(i / count));
  });
}
TEST(sends_and_receives_of_a_batch_may_come_in_any_order) {
  on_every_rank([](uint32_t rank, HcclComm comm, aclrtStream stream) {
    const uint32_t next = (rank + 1) % kRanks, before = (rank + kRanks - 1) % kRanks;
    std::vector<int64_t> out(50000, rank), in(out.size());
    HcclSendRecvItem items[2] = {{HCCL_SEND, out.data(), out.size(), HCCL_DATA_TYPE_INT64, next},
                                 {HCCL_RECV, in.data(), in.size(), HCCL_DATA_TYPE_INT64, before}};
    OK(HcclBatchSendRecv(items, 2, comm, stream));
    OK(aclrtSynchronizeStream(stream));
    for (const int64_t value : in) CHECK(value == before);
  });
}
