// C functions around one session of the Graph Engine. Each gives 0, or a code with the text in air_ge_error().
#include "session.h"
#include "call.h"

#include <stdexcept>

#define PUBLIC extern "C" __attribute__((visibility("default")))

namespace {
// Memory of torch's caching allocator, asked for by functions of the caller.
class OfTorch : public ge::Allocator {
 public:
  OfTorch(void* memory, Take take, Give give) : memory_(memory), take_(take), give_(give) {}
  ge::MemBlock* Malloc(size_t bytes) override {
    void* at = take_(memory_, bytes);
    return at ? new ge::MemBlock(*this, at, bytes) : nullptr;
  }
  void Free(ge::MemBlock* block) override {
    give_(memory_, block->at());
    delete block;
  }

 private:
  void* memory_;
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

// Lives as long as the process: the engine may hold memory of a stream longer than anybody asks for it.
PUBLIC void* air_ge_allocator(void* memory, Take take, Give give) {
  return new std::shared_ptr<ge::Allocator>(std::make_shared<OfTorch>(memory, take, give));
}

namespace {
// The tensors of a graph's calls, made once: a call writes where they lie, and their sizes where those change.
struct Call {
  uint32_t id;
  size_t count;  // of results
  std::vector<ge::Tensor> inputs, results;
};
void describe(ge::Tensor& made, const Described& from) {
  made.SetDataType(static_cast<ge::DataType>(from.type));
  made.SetFormat(ge::FORMAT_ND);
  made.SetPlacement(static_cast<ge::Placement>(from.placement));
  made.SetShapeDimNum(from.rank);
  for (int32_t i = 0; i < from.rank; ++i) made.SetShapeDim(i, from.dims[i]);
}
void lay(std::vector<ge::Tensor>& tensors, const Described* from, bool anew) {
  static const ge::Tensor::DeleteFunc kept = [](uint8_t*) {};  // the caller's
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!from[i].at) continue;
    if (anew) describe(tensors[i], from[i]);
    tensors[i].ResetData(static_cast<uint8_t*>(from[i].at), from[i].bytes, kept);
  }
}
void read(ge::Tensor& from, Described& to) {
  const size_t rank = from.GetShapeDimNum();
  if (rank > 32) throw std::runtime_error("a result has more than 32 dimensions");
  to.at = from.GetData();
  to.type = from.GetDataType();
  to.rank = static_cast<int32_t>(rank);
  for (size_t i = 0; i < rank; ++i) to.dims[i] = from.GetShapeDim(i);
}
}  // namespace

PUBLIC void* air_ge_call(uint32_t id, size_t inputs, size_t results) {
  return new Call{id, results, std::vector<ge::Tensor>(inputs), std::vector<ge::Tensor>(results)};
}

// The allocator is said in each call: another user of the engine may have set one of its own for the stream.
PUBLIC int air_ge_run(void* of, void* stream, void* allocator, const Described* inputs, Described* results, int anew) {
  return guarded([&] {
    Call& call = *static_cast<Call*>(of);
    const auto& memory = *static_cast<const std::shared_ptr<ge::Allocator>*>(allocator);
    if (const int failed = told(session->RegisterExternalAllocator(stream, memory))) return failed;
    lay(call.inputs, inputs, anew);
    lay(call.results, results, anew);
    if (const int failed = told(session->RunGraphWithStreamAsync(call.id, stream, call.inputs, call.results))) return failed;
    if (call.results.size() != call.count) throw std::runtime_error("the graph gave another number of results");
    for (size_t i = 0; i < call.count; ++i)
      if (!results[i].at) read(call.results[i], results[i]);
    return 0;
  });
}

// Gives back what the engine took for results: the caller has tensors over that memory by now, or the run failed.
PUBLIC void air_ge_done(void* of) {
  Call& call = *static_cast<Call*>(of);
  call.results = std::vector<ge::Tensor>(call.count);
}

PUBLIC void air_ge_drop(void* call) { delete static_cast<Call*>(call); }

PUBLIC int air_ge_remove(uint32_t id) {
  return guarded([&] { return session ? told(session->RemoveGraph(id)) : 0; });
}
