// The classes of the Graph Engine that TorchAir's extension calls and that the headers in the torch_npu wheel lack:
// names, order of virtual functions and data members are the binary interface, so they cannot differ.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/graph.h"
#include "graph/operator_factory.h"
#include "graph/tensor.h"
#include "graph/types.h"

#define AIR_SIM_GE __attribute__((visibility("default")))

namespace ge {
using Status = uint32_t;
using Options = std::map<AscendString, AscendString>;
constexpr Status kSuccess = 0;
constexpr Status kFailed = 0xFFFFFFFF;

// A block of the caller's allocator.  The counter is part of the layout; a block is freed when it drops to zero.
class Allocator;
class AIR_SIM_GE MemBlock {
 public:
  MemBlock(Allocator& owner, void* address, size_t bytes) : owner_(owner), address_(address), bytes_(bytes) {}
  virtual ~MemBlock() = default;
  void* address() { return address_; }
  void release();

 private:
  Allocator& owner_;
  void* address_;
  size_t uses_ = 1;
  size_t bytes_;
};
class AIR_SIM_GE Allocator {
 public:
  virtual ~Allocator() = default;
  virtual MemBlock* Malloc(size_t bytes) = 0;
  virtual void Free(MemBlock* block) = 0;
  virtual MemBlock* MallocAdvise(size_t bytes, void*) { return Malloc(bytes); }
};
inline void MemBlock::release() {
  if (uses_ > 0 && --uses_ == 0) owner_.Free(this);
}
using AllocatorPtr = std::shared_ptr<Allocator>;

class AIR_SIM_GE CompiledGraphSummary {
 public:
  class Builder;
  class SummaryData;
  ~CompiledGraphSummary();
  bool IsStatic() const;
  Status GetConstMemorySize(size_t& bytes) const;
  Status GetFeatureMemorySize(size_t& bytes) const;
  Status GetFixedFeatureMemorySize(size_t& bytes) const;
  Status GetFeatureMemoryBaseRefreshable(bool& yes) const;
  Status GetOutputShapes(std::vector<Shape>& shapes) const;
  Status GetOutputDtypes(std::vector<DataType>& types) const;

 private:
  CompiledGraphSummary() = default;
  std::shared_ptr<SummaryData> data_;
};
using CompiledGraphSummaryPtr = std::shared_ptr<CompiledGraphSummary>;

class AIR_SIM_GE Session {
 public:
  explicit Session(const Options& options);
  ~Session();
  Status AddGraph(uint32_t id, const Graph& graph, const Options& options);
  Status RemoveGraph(uint32_t id);
  Status CompileGraph(uint32_t id);
  CompiledGraphSummaryPtr GetCompiledGraphSummary(uint32_t id);
  Status SetGraphConstMemoryBase(uint32_t id, const void* const base, size_t bytes);
  Status UpdateGraphFeatureMemoryBase(uint32_t id, const void* const base, size_t bytes);
  Status SetGraphFixedFeatureMemoryBase(uint32_t id, const void* const base, size_t bytes);
  Status UpdateGraphRefreshableFeatureMemoryBase(uint32_t id, const void* const base, size_t bytes);
  Status RegisterExternalAllocator(const void* const stream, AllocatorPtr allocator) const;
  Status RunGraphWithStreamAsync(uint32_t id, void* stream, const std::vector<Tensor>& inputs,
                                 std::vector<Tensor>& outputs);
  Status RunGraph(uint32_t id, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);

 private:
  uint64_t session_id_ = 0;
};

AIR_SIM_GE Status GEInitialize(const Options& options);
AIR_SIM_GE Status GEFinalize();
AIR_SIM_GE AscendString GEGetWarningMsgV2();
}  // namespace ge
