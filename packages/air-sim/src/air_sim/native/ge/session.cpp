// Graphs and sessions: loading, compiling, running, and the record of the options they were given.
#include "session.h"

#include <acl/acl_rt.h>
#include <c10/core/InferenceMode.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "air_sim/runtime.h"

using air_sim::graph_engine::api_of_type;
using air_sim::graph_engine::Model;
using air_sim::graph_engine::type_of_api;
using air_sim::graph_engine::type_of_graph;
using ModelPtr = std::shared_ptr<Model>;

namespace {
struct State {
  std::mutex m;
  std::map<uint32_t, ModelPtr> models;
  std::set<uint32_t> refreshable;  // graphs whose memory may lie elsewhere at each run
  std::map<uint32_t, std::string> kept;  // files of graphs that other processes shall find compiled
  std::map<const void*, ge::AllocatorPtr> allocators;  // of the outputs of dynamic graphs, by stream
  std::string error;
};
State& state() {
  static State& it = *new State;
  return it;
}
// Runs `body`; what it throws becomes the engine's error text.  The engine's own tensors are no business of Python: one
// that a mode of Python has seen could only be freed under its lock, also by the thread of a stream.
template <class Body>
ge::Status guarded(const char* what, Body body) {
  const c10::impl::ExcludeDispatchKeyGuard plain(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  try {
    body();
    return ge::kSuccess;
  } catch (const std::exception& problem) {
    const std::string text = std::string(problem.what());
    std::lock_guard<std::mutex> lock(state().m);
    state().error = std::string(what) + ": " + text.substr(0, text.find("\nException raised from"));
    air_sim::set_error("Graph Engine: %s", state().error.c_str());
    return ge::kFailed;
  }
}
// Whether a fault was arranged for this call.
bool refused_by_fault(const char* name) {
  if (!air_sim::refused(name)) return false;
  std::lock_guard<std::mutex> lock(state().m);
  state().error = std::string(name) + ": a fault was injected";
  return true;
}
// Counts a call of the engine; one that is refused gives `code`, and does nothing.
#define ENGINE_ENTRY_OR(name, code) \
  AIR_SIM_COUNT(name);              \
  if (refused_by_fault(name)) return code

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}
// AIR_SIM_GE_RECORD: one JSON line per set of options, and one per graph whose compilation is kept in a file.
void record(const char* what, int64_t graph, const ge::Options& options) {
  const char* path = getenv("AIR_SIM_GE_RECORD");
  if (!path || !*path) return;
  std::string line = "{\"call\":" + quoted(what) + ",\"graph\":" + std::to_string(graph) + ",\"options\":{";
  bool first = true;
  for (const auto& [key, value] : options) {
    line += (first ? "" : ",") + quoted(key.GetString()) + ":" + quoted(value.GetString());
    first = false;
  }
  line += "}}\n";
  if (FILE* file = fopen(path, "a")) {
    fputs(line.c_str(), file);
    fclose(file);
  }
}
ModelPtr find_model(uint32_t id) {
  std::lock_guard<std::mutex> lock(state().m);
  const auto found = state().models.find(id);
  if (found == state().models.end()) throw std::runtime_error("no graph has the id " + std::to_string(id));
  return found->second;
}
// Formats that hold the elements in their order. In air-sim, memory of any other format (FRACTAL_NZ) holds them so too, as
// many as the tensor had before it was laid out.
bool is_plain(ge::Format format) {
  const std::set<ge::Format> plain{ge::FORMAT_ND,    ge::FORMAT_NCHW,  ge::FORMAT_NHWC, ge::FORMAT_NCDHW,
                                   ge::FORMAT_NDHWC, ge::FORMAT_RESERVED};
  return plain.count(format) != 0;
}
std::vector<int64_t> shape_of(const ge::Tensor& t) {
  std::vector<int64_t> shape;
  if (is_plain(t.GetFormat()))
    for (size_t i = 0; i < t.GetShapeDimNum(); ++i) shape.push_back(t.GetShapeDim(i));
  else
    for (size_t i = 0; i < t.GetOriginShapeDimNum(); ++i) shape.push_back(t.GetOriginShapeDim(i));
  return shape;
}
// The memory of a ge::Tensor, as a tensor.
at::Tensor view(const ge::Tensor& t) {
  const std::vector<int64_t> shape = shape_of(t);
  const at::TensorOptions options(type_of_api(t.GetDataType()));
  void* data = const_cast<uint8_t*>(t.GetData());
  return data ? at::from_blob(air_sim::host_address(data), shape, options) : at::empty(shape, options);
}
bool is_on_host(const ge::Tensor& t) { return t.GetPlacement() == ge::kPlacementHost; }

std::string option(const ge::Options& options, const char* name) {
  const auto found = options.find(ge::AscendString(name));
  return found == options.end() ? "" : found->second.GetString();
}
// The file for the graph of these options; none where they name no folder and key.
std::string file_of(const ge::Options& options) {
  const std::string folder = option(options, "ge.graph_compiler_cache_dir"), key = option(options, "ge.graph_key");
  return folder.empty() || key.empty() ? "" : folder + "/" + key + ".om";
}
// Compiles a graph, or takes what a file has of it: like the engine's own files, one is taken by its name alone.
void compile_or_read(uint32_t id) {
  const ModelPtr model = find_model(id);
  std::string file;
  {
    std::lock_guard<std::mutex> lock(state().m);
    const auto found = state().kept.find(id);
    if (found != state().kept.end()) file = found->second;
  }
  ModelPtr read = file.empty() ? nullptr : air_sim::graph_engine::read_compiled(file);
  if (read) {
    record("ReadCompiledGraph", id, {});
    std::lock_guard<std::mutex> lock(state().m);
    state().models[id] = std::move(read);
    return;
  }
  air_sim::graph_engine::compile(*model, aclrtGetSocName());
  if (file.empty()) return;
  record("CompileGraph", id, {});
  air_sim::graph_engine::write_compiled(*model, file);
}

// Outputs of a dynamic graph: a dry run gives the shapes, the caller's allocator the memory. Where values decide a
// shape, the dry run is on the values: like the engine, it waits for what makes them.
void allocate_outputs(const Model& model, const std::vector<ge::Tensor>& inputs, const std::vector<at::Tensor>& values,
                      void* stream, std::vector<ge::Tensor>& outputs) {
  bool waits = model.sizes_from_values && !air_sim::noop();
  const auto wait = [&] {
    if (aclrtSynchronizeStream(stream) != 0) throw std::runtime_error("the stream failed before a size was known");
  };
  if (waits) wait();
  air_sim::graph_engine::Sizes sizes;
  for (const ge::Tensor& t : inputs) sizes.on_device.push_back(!is_on_host(t));
  const auto tried = [&](int64_t number) {
    std::vector<at::Tensor> stand_ins;
    for (size_t i = 0; i < values.size(); ++i)
      stand_ins.push_back(waits || is_on_host(inputs[i]) ? values[i].clone() : at::full_like(values[i], number));
    return run(model, stand_ins, true, waits ? nullptr : &sizes);
  };
  std::vector<at::Tensor> results;
  try {
    results = tried(0);  // every index has a place
  } catch (const std::exception&) {
    results = tried(1);  // every number divides
  }
  if (sizes.from_device && !air_sim::noop()) {
    model.sizes_from_values = waits = true;
    wait();
    results = tried(0);
  }
  outputs.resize(results.size());
  ge::AllocatorPtr allocator;
  {
    std::lock_guard<std::mutex> lock(state().m);
    const auto found = state().allocators.find(stream);
    if (found == state().allocators.end()) throw std::runtime_error("the stream has no allocator for a dynamic graph");
    allocator = found->second;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (outputs[i].GetData()) continue;
    ge::TensorDesc desc;
    desc.SetShape(ge::Shape(results[i].sizes().vec()));
    desc.SetDataType(static_cast<ge::DataType>(api_of_type(results[i].scalar_type())));
    desc.SetPlacement(ge::kPlacementDevice);
    outputs[i].SetTensorDesc(desc);
    ge::MemBlock* block = allocator->Malloc(std::max<size_t>(results[i].nbytes(), 1));
    if (!block) throw std::runtime_error("the allocator has no memory for an output");
    outputs[i].SetData(static_cast<uint8_t*>(block->address()), results[i].nbytes(), [block](uint8_t*) { block->release(); });
  }
}
void run_async(uint32_t id, void* stream, const std::vector<ge::Tensor>& inputs, std::vector<ge::Tensor>& outputs) {
  const ModelPtr model = find_model(id);
  std::vector<at::Tensor> in, out;
  for (const ge::Tensor& t : inputs) in.push_back(is_on_host(t) ? view(t).clone() : view(t));
  if (!model->is_static) allocate_outputs(*model, inputs, in, stream, outputs);
  for (const ge::Tensor& t : outputs) out.push_back(view(t));
  const auto work = [model, in, out] {
    if (air_sim::noop()) return;
    const c10::InferenceMode guard(true);  // the caller may have been in it when it made the outputs
    try {
      const auto results = run(*model, in, false);
      for (size_t i = 0; i < out.size(); ++i) at::Tensor(out[i]).copy_(results[i].view_as(out[i]));
    } catch (const std::exception& problem) {
      air_sim::task_failed(problem.what());
    }
  };
  if (air_sim::enqueue(stream, work, "graph of the graph engine") != 0) throw std::runtime_error("the stream refused the graph");
}
}  // namespace

// For the one function that hands the text over in the old string type.
extern "C" const char* air_sim_ge_error() {
  static thread_local std::string given;
  std::lock_guard<std::mutex> lock(state().m);
  given = state().error;
  return given.c_str();
}

namespace ge {
Graph::Graph(const char_t*) : impl_(std::make_shared<GraphImpl>()) {}
graphStatus Graph::LoadFromSerializedModelArray(const void* data, size_t size) {
  ENGINE_ENTRY_OR("ge::Graph::LoadFromSerializedModelArray", GRAPH_FAILED);
  if (!impl_) impl_ = std::make_shared<GraphImpl>();
  const Status status = guarded("LoadFromSerializedModelArray",
                                [&] { impl_->model = air_sim::graph_engine::parse_model(data, size); });
  return status == kSuccess ? GRAPH_SUCCESS : GRAPH_FAILED;
}
std::vector<GNode> Graph::GetAllNodes() const { return {}; }
graphStatus Graph::CopyFrom(const Graph& other) {
  impl_ = other.impl_;
  return GRAPH_SUCCESS;
}
graphStatus Graph::SaveToFile(const char_t* path) const {
  FILE* file = impl_ && impl_->model ? fopen(path, "wb") : nullptr;
  if (!file) return GRAPH_FAILED;
  const std::string& bytes = impl_->model->bytes;
  const bool whole = fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  fclose(file);
  return whole ? GRAPH_SUCCESS : GRAPH_FAILED;
}
bool OperatorFactory::IsExistOp(const char_t* const) {
  AIR_SIM_COUNT("ge::OperatorFactory::IsExistOp");
  return true;
}

class CompiledGraphSummary::SummaryData {
 public:
  ModelPtr model;
  bool refreshable = false;
};
class CompiledGraphSummary::Builder {
 public:
  static CompiledGraphSummaryPtr make(ModelPtr model, bool refreshable) {
    CompiledGraphSummaryPtr summary(new CompiledGraphSummary);
    summary->data_ = std::make_shared<SummaryData>();
    summary->data_->model = std::move(model);
    summary->data_->refreshable = refreshable;
    return summary;
  }
};
namespace {
constexpr size_t kWorkspaceBytes = 512;  // kernels here need none; callers do not expect zero
}
CompiledGraphSummary::~CompiledGraphSummary() = default;
bool CompiledGraphSummary::IsStatic() const { return data_->model->is_static; }
Status CompiledGraphSummary::GetConstMemorySize(size_t& bytes) const {
  bytes = kWorkspaceBytes;
  return kSuccess;
}
Status CompiledGraphSummary::GetFeatureMemorySize(size_t& bytes) const {
  bytes = data_->refreshable ? 2 * kWorkspaceBytes : kWorkspaceBytes;
  return kSuccess;
}
Status CompiledGraphSummary::GetFixedFeatureMemorySize(size_t& bytes) const {
  bytes = kWorkspaceBytes;
  return kSuccess;
}
Status CompiledGraphSummary::GetFeatureMemoryBaseRefreshable(bool& yes) const {
  yes = data_->refreshable;
  return kSuccess;
}
Status CompiledGraphSummary::GetOutputShapes(std::vector<Shape>& shapes) const {
  shapes.clear();
  for (const auto& dims : data_->model->output_shapes) shapes.emplace_back(dims);
  return kSuccess;
}
Status CompiledGraphSummary::GetOutputDtypes(std::vector<DataType>& types) const {
  types.clear();
  for (const auto type : data_->model->output_types) types.push_back(static_cast<DataType>(api_of_type(type)));
  return kSuccess;
}

Status GEInitialize(const Options& options) {
  ENGINE_ENTRY_OR("ge::GEInitialize", kFailed);
  record("GEInitialize", -1, options);
  return guarded("GEInitialize", [&] {
    uint32_t count = 0;
    aclrtGetDeviceCount(&count);
    const std::string device = option(options, "ge.exec.deviceId");
    if (std::strtoul(device.c_str(), nullptr, 10) >= count) throw std::runtime_error("there is no device " + device);
  });
}
Status GEFinalize() {
  AIR_SIM_COUNT("ge::GEFinalize");
  return kSuccess;
}
AscendString GEGetWarningMsgV2() { return AscendString(""); }

namespace {
// Memory that the caller gives to a graph has to be memory of the device.
Status given_memory(const char* what, uint32_t id, const void* base, size_t bytes) {
  return guarded(what, [&] {
    find_model(id);
    if (bytes < kWorkspaceBytes) throw std::runtime_error(std::to_string(bytes) + " bytes are too few");
    aclrtPtrAttributes found{};
    if (!base || aclrtPointerGetAttributes(base, &found) != 0 || found.location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
      throw std::runtime_error("the address is not of the device");
  });
}
}  // namespace

Session::Session(const Options& options) {
  AIR_SIM_COUNT("ge::Session::Session");
  record("Session", -1, options);
}
Session::~Session() = default;
Status Session::AddGraph(uint32_t id, const Graph& graph, const Options& options) {
  ENGINE_ENTRY_OR("ge::Session::AddGraph", kFailed);
  record("AddGraph", id, options);
  return guarded("AddGraph", [&] {
    // Graph has one data member, the pointer to its implementation, and no accessor for it.
    const auto& impl = *reinterpret_cast<const std::shared_ptr<GraphImpl>*>(&graph);
    if (!impl || !impl->model) throw std::runtime_error("the graph was not loaded");
    std::lock_guard<std::mutex> lock(state().m);
    state().models[id] = impl->model;
    const std::string file = file_of(options);
    if (!file.empty()) state().kept[id] = file;
    if (option(options, "ge.featureBaseRefreshable") == "1") state().refreshable.insert(id);
  });
}
Status Session::RemoveGraph(uint32_t id) {
  ENGINE_ENTRY_OR("ge::Session::RemoveGraph", kFailed);
  std::lock_guard<std::mutex> lock(state().m);
  state().kept.erase(id);
  state().refreshable.erase(id);
  return state().models.erase(id) ? kSuccess : kFailed;
}
Status Session::CompileGraph(uint32_t id) {
  ENGINE_ENTRY_OR("ge::Session::CompileGraph", kFailed);
  return guarded("CompileGraph", [&] { compile_or_read(id); });
}
CompiledGraphSummaryPtr Session::GetCompiledGraphSummary(uint32_t id) {
  ENGINE_ENTRY_OR("ge::Session::GetCompiledGraphSummary", nullptr);
  CompiledGraphSummaryPtr summary;
  guarded("GetCompiledGraphSummary", [&] {
    const ModelPtr model = find_model(id);
    std::lock_guard<std::mutex> lock(state().m);
    summary = CompiledGraphSummary::Builder::make(model, state().refreshable.count(id) != 0);
  });
  return summary;
}
Status Session::SetGraphConstMemoryBase(uint32_t id, const void* const base, size_t bytes) {
  ENGINE_ENTRY_OR("ge::Session::SetGraphConstMemoryBase", kFailed);
  return given_memory("SetGraphConstMemoryBase", id, base, bytes);
}
Status Session::UpdateGraphFeatureMemoryBase(uint32_t id, const void* const base, size_t bytes) {
  ENGINE_ENTRY_OR("ge::Session::UpdateGraphFeatureMemoryBase", kFailed);
  return given_memory("UpdateGraphFeatureMemoryBase", id, base, bytes);
}
Status Session::SetGraphFixedFeatureMemoryBase(uint32_t id, const void* const base, size_t bytes) {
  ENGINE_ENTRY_OR("ge::Session::SetGraphFixedFeatureMemoryBase", kFailed);
  return given_memory("SetGraphFixedFeatureMemoryBase", id, base, bytes);
}
Status Session::UpdateGraphRefreshableFeatureMemoryBase(uint32_t id, const void* const base, size_t bytes) {
  ENGINE_ENTRY_OR("ge::Session::UpdateGraphRefreshableFeatureMemoryBase", kFailed);
  return given_memory("UpdateGraphRefreshableFeatureMemoryBase", id, base, bytes);
}
Status Session::RegisterExternalAllocator(const void* const stream, AllocatorPtr allocator) const {
  ENGINE_ENTRY_OR("ge::Session::RegisterExternalAllocator", kFailed);
  std::lock_guard<std::mutex> lock(state().m);
  state().allocators[stream] = std::move(allocator);
  return kSuccess;
}
Status Session::RunGraphWithStreamAsync(uint32_t id, void* stream, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
  ENGINE_ENTRY_OR("ge::Session::RunGraphWithStreamAsync", kFailed);
  return guarded("RunGraphWithStreamAsync", [&] { run_async(id, stream, inputs, outputs); });
}
Status Session::RunGraph(uint32_t id, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
  ENGINE_ENTRY_OR("ge::Session::RunGraph", kFailed);
  return guarded("RunGraph", [&] {
    const ModelPtr model = find_model(id);
    std::vector<at::Tensor> in;
    for (const Tensor& t : inputs) in.push_back(view(t));
    const auto results = run(*model, in, false);
    outputs.resize(results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const at::Tensor dense = results[i].contiguous();
      TensorDesc desc;
      desc.SetShape(Shape(dense.sizes().vec()));
      desc.SetDataType(static_cast<DataType>(api_of_type(dense.scalar_type())));
      outputs[i].SetTensorDesc(desc);
      auto* copy = new uint8_t[dense.nbytes() + 1];
      memcpy(copy, dense.data_ptr(), dense.nbytes());
      outputs[i].SetData(copy, dense.nbytes(), [](uint8_t* p) { delete[] p; });
    }
  });
}
}  // namespace ge
