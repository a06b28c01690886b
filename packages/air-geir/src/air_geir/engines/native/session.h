// What we call of the Graph Engine and the headers in the torch_npu wheel do not declare. Names, the order of virtual
// functions and data members are the binary interface, so they cannot differ.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/graph.h"
#include "graph/tensor.h"
#include "graph/types.h"

namespace ge {
using Status = uint32_t;
using Settings = std::map<AscendString, AscendString>;

class Allocator;
// Memory that an allocator gave out; it goes back when the count is zero.
class MemBlock {
 public:
  MemBlock(Allocator& from, void* at, size_t bytes) : from_(from), at_(at), bytes_(bytes) {}
  virtual ~MemBlock() = default;
  void* at() const { return at_; }

 private:
  Allocator& from_;
  void* at_;
  size_t count_ = 1;
  size_t bytes_;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual MemBlock* Malloc(size_t bytes) = 0;
  virtual void Free(MemBlock* block) = 0;
  virtual MemBlock* MallocAdvise(size_t bytes, void*) { return Malloc(bytes); }
};

class CompiledGraphSummary {
 public:
  class SummaryData;
  ~CompiledGraphSummary();
  bool IsStatic() const;
  Status GetConstMemorySize(size_t& bytes) const;
  Status GetFeatureMemorySize(size_t& bytes) const;
  Status GetFixedFeatureMemorySize(size_t& bytes) const;
  Status GetFeatureMemoryBaseRefreshable(bool& yes) const;
  Status GetOutputShapes(std::vector<Shape>& shapes) const;

 private:
  std::shared_ptr<SummaryData> data_;
};

class Session {
 public:
  explicit Session(const Settings& settings);
  ~Session();
  Status AddGraph(uint32_t id, const Graph& graph, const Settings& settings);
  Status RemoveGraph(uint32_t id);
  Status CompileGraph(uint32_t id);
  std::shared_ptr<CompiledGraphSummary> GetCompiledGraphSummary(uint32_t id);
  Status SetGraphConstMemoryBase(uint32_t id, const void* const base, size_t bytes);
  Status UpdateGraphFeatureMemoryBase(uint32_t id, const void* const base, size_t bytes);
  Status SetGraphFixedFeatureMemoryBase(uint32_t id, const void* const base, size_t bytes);
  Status UpdateGraphRefreshableFeatureMemoryBase(uint32_t id, const void* const base, size_t bytes);
  Status RegisterExternalAllocator(const void* const stream, std::shared_ptr<Allocator> allocator) const;
  Status RunGraphWithStreamAsync(uint32_t id, void* stream, const std::vector<Tensor>& inputs,
                                 std::vector<Tensor>& outputs);

 private:
  uint64_t reserved_[8] = {};  // the engine holds its number here; room for what a newer one may hold
};

Status GEInitialize(const Settings& settings);
Status GEFinalize();
std::string GEGetErrorMsg();
}  // namespace ge
