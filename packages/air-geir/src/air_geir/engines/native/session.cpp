// C functions around one session of the Graph Engine. Each gives 0, or a code with the text in air_ge_error().
#include "session.h"

#include <stdexcept>

#define PUBLIC extern "C" __attribute__((visibility("default")))

namespace {
using Take = void* (*)(size_t bytes);
using Give = void (*)(void* at);

// Memory of torch's caching allocator, asked for by functions of the caller.
class OfTorch : public ge::Allocator {
 public:
  OfTorch(Take take, Give give) : take_(take), give_(give) {}
  ge::MemBlock* Malloc(size_t bytes) override {
    void* at = take_(bytes);
    return at ? new ge::MemBlock(*this, at, bytes) : nullptr;
  }
  void Free(ge::MemBlock* block) override {
    give_(block->at());
    delete block;
  }

 private:
  Take take_;
  Give give_;
};

ge::Session* session = nullptr;
thread_local std::string text;

int told(ge::Status status) {
  if (status == 0) return 0;
  text = ge::GEGetErrorMsg();
  return static_cast<int>(status);
}
// What is thrown becomes text: no exception may pass through C.
template <class Body>
int guarded(Body body) {
  try {
    text.clear();
    return body();
  } catch (const std::exception& problem) {
    text = problem.what();
    return -1;
  }
}
ge::Settings settings(const char* const* pairs, size_t count) {
  ge::Settings made;
  for (size_t i = 0; i < count; ++i)
    made.emplace(ge::AscendString(pairs[2 * i]), ge::AscendString(pairs[2 * i + 1]));
  return made;
}
}  // namespace

// One tensor of a call: a result whose memory is not known yet has none.
struct Described {
  void* at;
  int64_t bytes;
  int32_t type;
  int32_t placement;
  int32_t rank;
  int32_t padding;
  int64_t dims[32];
};

namespace {
ge::Tensor tensor(const Described& from) {
  ge::Tensor made;
  if (!from.at) return made;
  made.SetDataType(static_cast<ge::DataType>(from.type));
  made.SetFormat(ge::FORMAT_ND);
  made.SetPlacement(static_cast<ge::Placement>(from.placement));
  made.SetShapeDimNum(from.rank);
  for (int32_t i = 0; i < from.rank; ++i) made.SetShapeDim(i, from.dims[i]);
  made.ResetData(static_cast<uint8_t*>(from.at), from.bytes, [](uint8_t*) {});
  return made;
}
bool describe(ge::Tensor& from, Described& to) {
  const size_t rank = from.GetShapeDimNum();
  if (rank > 32) return false;
  to.at = from.GetData();
  to.type = from.GetDataType();
  to.rank = static_cast<int32_t>(rank);
  for (size_t i = 0; i < rank; ++i) to.dims[i] = from.GetShapeDim(i);
  return true;
}
}  // namespace

PUBLIC const char* air_ge_error() { return text.c_str(); }

PUBLIC int air_ge_start(const char* const* pairs, size_t count, const char* const* own, size_t own_count) {
  return guarded([&] {
    if (const int failed = told(ge::GEInitialize(settings(pairs, count)))) return failed;
    session = new ge::Session(settings(own, own_count));
    return 0;
  });
}

PUBLIC int air_ge_stop() {
  return guarded([&] {
    delete session;
    session = nullptr;
    return 0;  // GEFinalize is torch_npu's: it started the device
  });
}

PUBLIC int air_ge_add(uint32_t id, const char* name, const void* model, size_t bytes, const char* const* pairs,
                      size_t count) {
  return guarded([&] {
    ge::Graph graph(name);
    if (const int failed = told(graph.LoadFromSerializedModelArray(model, bytes))) return failed;
    return told(session->AddGraph(id, graph, settings(pairs, count)));
  });
}

PUBLIC int air_ge_compile(uint32_t id) {
  return guarded([&] { return told(session->CompileGraph(id)); });
}

// Bytes of memory that a graph of fixed sizes wants. Of its features, `fixed` stay in one place, where the others may lie
// elsewhere at each run.
struct Memory {
  size_t constants;
  size_t features;
  size_t fixed;
  int32_t refreshable;
  int32_t padding;
};

namespace {
int memory_of(const ge::CompiledGraphSummary& summary, Memory& memory) {
  memory = {};
  bool refreshable = false;
  if (const int failed = told(summary.GetConstMemorySize(memory.constants))) return failed;
  if (const int failed = told(summary.GetFeatureMemorySize(memory.features))) return failed;
  if (const int failed = told(summary.GetFeatureMemoryBaseRefreshable(refreshable))) return failed;
  memory.refreshable = refreshable;
  return refreshable ? told(summary.GetFixedFeatureMemorySize(memory.fixed)) : 0;
}
}  // namespace

// Shapes of the results, of a graph that has fixed ones; room is how many fit.
PUBLIC int air_ge_summary(uint32_t id, int* is_static, Memory* memory, Described* results, size_t room, size_t* count) {
  return guarded([&] {
    const auto summary = session->GetCompiledGraphSummary(id);
    if (!summary) return told(1);
    *is_static = summary->IsStatic();
    *count = 0;
    if (!*is_static) return 0;
    if (const int failed = memory_of(*summary, *memory)) return failed;
    std::vector<ge::Shape> shapes;
    if (const int failed = told(summary->GetOutputShapes(shapes))) return failed;
    *count = shapes.size();
    for (size_t i = 0; i < shapes.size() && i < room; ++i) {
      const auto dims = shapes[i].GetDims();
      if (dims.size() > 32) throw std::runtime_error("a result has more than 32 dimensions");
      results[i].rank = static_cast<int32_t>(dims.size());
      for (size_t at = 0; at < dims.size(); ++at) results[i].dims[at] = dims[at];
    }
    return 0;
  });
}

PUBLIC int air_ge_constants(uint32_t id, const void* at, size_t bytes) {
  return guarded([&] { return told(session->SetGraphConstMemoryBase(id, at, bytes)); });
}
// All features at once, or those that stay and those that may move.
PUBLIC int air_ge_features(uint32_t id, const void* at, size_t bytes) {
  return guarded([&] { return told(session->UpdateGraphFeatureMemoryBase(id, at, bytes)); });
}
PUBLIC int air_ge_fixed_features(uint32_t id, const void* at, size_t bytes) {
  return guarded([&] { return told(session->SetGraphFixedFeatureMemoryBase(id, at, bytes)); });
}
PUBLIC int air_ge_refreshable_features(uint32_t id, const void* at, size_t bytes) {
  return guarded([&] { return told(session->UpdateGraphRefreshableFeatureMemoryBase(id, at, bytes)); });
}

PUBLIC int air_ge_allocator(void* stream, Take take, Give give) {
  return guarded([&] { return told(session->RegisterExternalAllocator(stream, std::make_shared<OfTorch>(take, give))); });
}

PUBLIC int air_ge_run(uint32_t id, void* stream, const Described* inputs, size_t input_count, Described* results,
                      size_t result_count) {
  return guarded([&] {
    std::vector<ge::Tensor> in, out;
    for (size_t i = 0; i < input_count; ++i) in.push_back(tensor(inputs[i]));
    for (size_t i = 0; i < result_count; ++i) out.push_back(tensor(results[i]));
    if (const int failed = told(session->RunGraphWithStreamAsync(id, stream, in, out))) return failed;
    if (out.size() != result_count) throw std::runtime_error("the graph gave another number of results");
    for (size_t i = 0; i < result_count; ++i)
      if (!describe(out[i], results[i])) throw std::runtime_error("a result has more than 32 dimensions");
    return 0;  // the engine's blocks go back here; the caller holds the tensors they stand for
  });
}

PUBLIC int air_ge_remove(uint32_t id) {
  return guarded([&] { return session ? told(session->RemoveGraph(id)) : 0; });
}
