// The aclmdl functions that load, describe and run an offline model.
#include <acl/acl.h>
#include <acl/acl_mdl.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <mutex>

#include "air_sim/runtime.h"
#include "offline.h"

using air_sim::graph_engine::Ints;
using air_sim::graph_engine::Model;
using ModelPtr = std::shared_ptr<Model>;

struct aclmdlDesc {
  ModelPtr model;
};
struct aclmdlDataset {
  std::vector<aclDataBuffer*> buffers;
};

namespace {
struct Loaded {
  std::mutex m;
  std::map<uint32_t, ModelPtr> models;
  uint32_t next = 1;
};
Loaded& loaded() {
  static Loaded& it = *new Loaded;
  return it;
}
aclError failed(aclError code, const std::string& text) {
  air_sim::set_error("offline model: %s", text.substr(0, text.find("\nException raised from")).c_str());
  return code;
}
ModelPtr find(uint32_t id) {
  std::lock_guard<std::mutex> lock(loaded().m);
  const auto found = loaded().models.find(id);
  return found == loaded().models.end() ? nullptr : found->second;
}
// One argument or result of a model.
struct Port {
  std::string name;
  Ints shape;
  at::ScalarType type;
  size_t bytes() const {
    size_t size = c10::elementSize(type);
    for (const int64_t dim : shape) size *= dim;
    return size;
  }
};
Port input_of(const Model& model, size_t at) {
  const auto* op = model.inputs.at(at);
  const auto& desc = op->output_descs.at(0);
  return {op->name, desc.shape, air_sim::graph_engine::type_of_graph(desc.type)};
}
Port output_of(const Model& model, size_t at) {
  const auto& edge = model.outputs.at(at);
  return {edge.node + ":" + std::to_string(edge.output), model.output_shapes.at(at), model.output_types.at(at)};
}
using Which = Port (*)(const Model&, size_t);

size_t count_of(const Model& model, Which which) { return which == input_of ? model.inputs.size() : model.outputs.size(); }

aclError dims_of(const aclmdlDesc* desc, size_t index, aclmdlIODims* out, Which which) {
  if (!desc || !desc->model || index >= count_of(*desc->model, which)) return failed(ACL_ERROR_INVALID_PARAM, "there is no such tensor");
  const Port port = which(*desc->model, index);
  memset(out, 0, sizeof *out);
  strncpy(out->name, port.name.c_str(), sizeof out->name - 1);
  out->dimCount = port.shape.size();
  std::copy(port.shape.begin(), port.shape.end(), out->dims);
  return ACL_SUCCESS;
}
size_t bytes_of(const aclmdlDesc* desc, size_t index, Which which) {
  return desc && desc->model && index < count_of(*desc->model, which) ? which(*desc->model, index).bytes() : 0;
}
aclDataType type_of(const aclmdlDesc* desc, size_t index, Which which) {
  if (!desc || !desc->model || index >= count_of(*desc->model, which)) return ACL_DT_UNDEFINED;
  return static_cast<aclDataType>(air_sim::graph_engine::api_of_type(which(*desc->model, index).type));
}
const char* name_of(const aclmdlDesc* desc, size_t index, Which which) {
  static thread_local std::string given;
  given = desc && desc->model && index < count_of(*desc->model, which) ? which(*desc->model, index).name : "";
  return given.c_str();
}
// The tensors that lie in the buffers of a set; throws for buffers that are too few or too small.
std::vector<at::Tensor> tensors(const Model& model, const aclmdlDataset* set, Which which, const char* what) {
  const size_t count = count_of(model, which);
  if (!set || set->buffers.size() != count)
    throw std::runtime_error(std::string("the model has ") + std::to_string(count) + " " + what + ", the data set " +
                             std::to_string(set ? set->buffers.size() : 0));
  std::vector<at::Tensor> made;
  for (size_t i = 0; i < count; ++i) {
    const Port port = which(model, i);
    if (aclGetDataBufferSizeV2(set->buffers[i]) < port.bytes())
      throw std::runtime_error(std::string(what) + " " + std::to_string(i) + " has " +
                               std::to_string(aclGetDataBufferSizeV2(set->buffers[i])) + " bytes, the model needs " +
                               std::to_string(port.bytes()));
    void* at = aclGetDataBufferAddr(set->buffers[i]);
    const at::TensorOptions options(port.type);
    made.push_back(at && port.bytes() ? at::from_blob(air_sim::host_address(at), port.shape, options) : at::empty(port.shape, options));
  }
  return made;
}
aclError launch(uint32_t id, const aclmdlDataset* inputs, const aclmdlDataset* outputs, aclrtStream stream) {
  // The model's own tensors are no business of Python.
  const c10::impl::ExcludeDispatchKeyGuard plain(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  try {
    const ModelPtr model = find(id);
    if (!model) return failed(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "no model has the id " + std::to_string(id));
    const auto in = tensors(*model, inputs, input_of, "inputs"), out = tensors(*model, outputs, output_of, "outputs");
    const auto work = [model, in, out] {
      if (air_sim::noop()) return;
      const c10::InferenceMode guard(true);
      try {
        const auto results = run(*model, in, false);
        for (size_t i = 0; i < out.size(); ++i) at::Tensor(out[i]).copy_(results[i].view_as(out[i]));
      } catch (const std::exception& problem) {
        air_sim::task_failed(problem.what());
      }
    };
    return air_sim::enqueue(stream, work, "offline model");
  } catch (const std::exception& problem) {
    return failed(ACL_ERROR_INVALID_PARAM, problem.what());
  }
}
}  // namespace

AIR_SIM_API aclError aclmdlLoadFromFile(const char* path, uint32_t* id) {
  AIR_SIM_ENTRY;
  try {
    const auto model = air_sim::graph_engine::read_offline(path, aclrtGetSocName());
    std::lock_guard<std::mutex> lock(loaded().m);
    *id = loaded().next++;
    loaded().models[*id] = model;
    return ACL_SUCCESS;
  } catch (const std::exception& problem) {
    return failed(ACL_ERROR_PARSE_MODEL, problem.what());
  }
}
AIR_SIM_API aclError aclmdlUnload(uint32_t id) {
  AIR_SIM_ENTRY;
  std::lock_guard<std::mutex> lock(loaded().m);
  return loaded().models.erase(id) ? ACL_SUCCESS : failed(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "no model has the id " + std::to_string(id));
}
AIR_SIM_API aclmdlDesc* aclmdlCreateDesc() {
  AIR_SIM_ENTRY;
  return new aclmdlDesc;
}
AIR_SIM_API aclError aclmdlDestroyDesc(aclmdlDesc* desc) {
  AIR_SIM_ENTRY;
  delete desc;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlGetDesc(aclmdlDesc* desc, uint32_t id) {
  AIR_SIM_ENTRY;
  desc->model = find(id);
  return desc->model ? ACL_SUCCESS : failed(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "no model has the id " + std::to_string(id));
}
AIR_SIM_API size_t aclmdlGetNumInputs(aclmdlDesc* desc) {
  AIR_SIM_ENTRY;
  return desc && desc->model ? desc->model->inputs.size() : 0;
}
AIR_SIM_API size_t aclmdlGetNumOutputs(aclmdlDesc* desc) {
  AIR_SIM_ENTRY;
  return desc && desc->model ? desc->model->outputs.size() : 0;
}
AIR_SIM_API size_t aclmdlGetInputSizeByIndex(aclmdlDesc* desc, size_t i) { return bytes_of(desc, i, input_of); }
AIR_SIM_API size_t aclmdlGetOutputSizeByIndex(aclmdlDesc* desc, size_t i) { return bytes_of(desc, i, output_of); }
AIR_SIM_API aclError aclmdlGetInputDims(const aclmdlDesc* desc, size_t i, aclmdlIODims* out) { return dims_of(desc, i, out, input_of); }
AIR_SIM_API aclError aclmdlGetOutputDims(const aclmdlDesc* desc, size_t i, aclmdlIODims* out) { return dims_of(desc, i, out, output_of); }
AIR_SIM_API aclDataType aclmdlGetInputDataType(const aclmdlDesc* desc, size_t i) { return type_of(desc, i, input_of); }
AIR_SIM_API aclDataType aclmdlGetOutputDataType(const aclmdlDesc* desc, size_t i) { return type_of(desc, i, output_of); }
AIR_SIM_API const char* aclmdlGetInputNameByIndex(const aclmdlDesc* desc, size_t i) { return name_of(desc, i, input_of); }
AIR_SIM_API const char* aclmdlGetOutputNameByIndex(const aclmdlDesc* desc, size_t i) { return name_of(desc, i, output_of); }
AIR_SIM_API aclmdlDataset* aclmdlCreateDataset() {
  AIR_SIM_ENTRY;
  return new aclmdlDataset;
}
AIR_SIM_API aclError aclmdlDestroyDataset(const aclmdlDataset* set) {
  AIR_SIM_ENTRY;
  delete set;
  return ACL_SUCCESS;
}
AIR_SIM_API aclError aclmdlAddDatasetBuffer(aclmdlDataset* set, aclDataBuffer* buffer) {
  AIR_SIM_ENTRY;
  if (!set || !buffer) return failed(ACL_ERROR_INVALID_PARAM, "a data set takes a buffer");
  set->buffers.push_back(buffer);
  return ACL_SUCCESS;
}
AIR_SIM_API size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset* set) { return set ? set->buffers.size() : 0; }
AIR_SIM_API aclDataBuffer* aclmdlGetDatasetBuffer(const aclmdlDataset* set, size_t i) {
  return set && i < set->buffers.size() ? set->buffers[i] : nullptr;
}
AIR_SIM_API aclError aclmdlExecuteAsync(uint32_t id, const aclmdlDataset* in, aclmdlDataset* out, aclrtStream stream) {
  AIR_SIM_ENTRY;
  return launch(id, in, out, stream);
}
AIR_SIM_API aclError aclmdlExecute(uint32_t id, const aclmdlDataset* in, aclmdlDataset* out) {
  AIR_SIM_ENTRY;
  if (const aclError refused = launch(id, in, out, nullptr)) return refused;
  return aclrtSynchronizeStream(nullptr);
}
