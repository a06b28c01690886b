// Runs a graph with torch's tensors: one call from Python, of which the engine sees addresses and sizes.
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "call.h"

namespace {
void* const kNowhere = reinterpret_cast<void*>(64);  // of a tensor without elements: no address would mean no tensor

struct Unfit : std::runtime_error {  // the tensors of a call are others than those of the graph
  using std::runtime_error::runtime_error;
};
struct NoMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Other threads of Python run meanwhile; what is thrown finds the lock taken again.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() { PyEval_RestoreThread(state_); }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* const state_;
};

// Blocks of torch's caching allocator that the engine holds on one stream. The engine asks without Python's lock, from
// whatever thread, so no mode of Python may see it.
class Memory {
 public:
  Memory(c10::Stream stream, const Functions& engine)
      : allocator(engine.allocator(this, &Memory::take, &Memory::give)), stream_(stream) {}

  at::Tensor block(void* at) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = held_.find(at);
    return found == held_.end() ? at::Tensor() : found->second;
  }
  std::string failure() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(failure_, {});
  }
  void* const allocator;

 private:
  static void* take(void* memory, size_t bytes) {
    auto& self = *static_cast<Memory*>(memory);
    try {
      return self.hold(self.made(static_cast<int64_t>(std::max<size_t>(bytes, 1))));
    } catch (const c10::Error& error) {
      return self.failed(error.what_without_backtrace());
    } catch (const std::exception& error) {
      return self.failed(error.what());
    }
  }
  static void give(void* memory, void* at) {
    auto& self = *static_cast<Memory*>(memory);
    at::Tensor last;  // freed after the lock
    const std::lock_guard<std::mutex> lock(self.mutex_);
    const auto found = self.held_.find(at);
    if (found == self.held_.end()) return;
    last = std::move(found->second);
    self.held_.erase(found);
  }
  at::Tensor made(int64_t bytes) const {
    const c10::impl::ExcludeDispatchKeyGuard plain(
        c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
    const c10::StreamGuard there(stream_);
    at::Tensor block = at::empty({bytes}, at::TensorOptions(at::kByte).device(stream_.device()));
    c10_npu::NPUStream(stream_).stream();  // empties torch_npu's queue: work there may still read this block
    return block;
  }
  void* hold(at::Tensor block) {
    void* const at = block.data_ptr();
    const std::lock_guard<std::mutex> lock(mutex_);
    held_[at] = std::move(block);
    return at;
  }
  void* failed(const char* why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = why;
    return nullptr;
  }

  const c10::Stream stream_;
  std::mutex mutex_;
  std::unordered_map<void*, at::Tensor> held_;
  std::string failure_;
};

// One for each stream, for as long as the process lives, as the engine's own.
Memory& memory_of(const c10_npu::NPUStream& stream, const Functions& engine) {
  static auto& known = *new std::map<std::pair<int, int64_t>, Memory*>;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  Memory*& found = known[{stream.device_index(), stream.id()}];
  if (!found) found = new Memory(stream.unwrap(), engine);
  return *found;
}

struct Port {
  int32_t type;  // the engine's number
  at::ScalarType of_torch;
  bool on_host;
};

// A graph, with what is the same in each of its calls.
class Call {
 public:
  Call(const Functions& engine, uint32_t id, std::vector<Port> inputs, std::vector<Port> results, bool is_fixed)
      : engine_(engine),
        call_(engine.call(id, inputs.size(), results.size())),
        inputs_(std::move(inputs)),
        results_(std::move(results)),
        is_fixed_(is_fixed),
        given_(inputs_.size()),
        taken_(results_.size()) {}
  ~Call() { engine_.drop(call_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  PyObject* run(PyObject* inputs, PyObject* results) {
    const bool anew = !known_;
    std::vector<at::Tensor> on_host;
    name_inputs(inputs, anew, on_host);
    const bool whole = name_results(results, anew);
    known_ = false;  // until the call has gone well
    launch(anew);
    host_ = std::move(on_host);  // the engine may read those after the call
    known_ = is_fixed_ && whole;
    if (!whole) return with_taken(results);
    Py_INCREF(results);
    return results;
  }

 private:
  static void name(Described& slot, const at::Tensor& tensor, const Port& port, bool anew) {
    const int64_t bytes = static_cast<int64_t>(tensor.nbytes());
    if (anew) {
      const auto sizes = tensor.sizes();
      if (sizes.size() > 32) throw Unfit("a tensor has more than 32 dimensions");
      slot.type = port.type;
      slot.placement = port.on_host ? 0 : 1;
      slot.rank = static_cast<int32_t>(sizes.size());
      std::copy(sizes.begin(), sizes.end(), slot.dims);
      slot.bytes = bytes;
    }
    if (bytes != slot.bytes)
      throw Unfit("a tensor takes " + std::to_string(bytes) + " bytes, in the first call it took " + std::to_string(slot.bytes));
    void* const at = tensor.data_ptr();
    slot.at = at ? at : kNowhere;
  }
  static const at::Tensor& tensor_of(PyObject* object) {
    if (!THPVariable_Check(object)) throw Unfit(std::string("a tensor is wanted, not ") + Py_TYPE(object)->tp_name);
    return THPVariable_Unpack(object);
  }
  void name_inputs(PyObject* inputs, bool anew, std::vector<at::Tensor>& on_host) {
    const size_t count = PySequence_Fast_GET_SIZE(inputs);
    if (count != given_.size())
      throw Unfit("it takes " + std::to_string(given_.size()) + " tensors, " + std::to_string(count) + " were given");
    PyObject** const each = PySequence_Fast_ITEMS(inputs);
    for (size_t i = 0; i < count; ++i) {
      const at::Tensor& tensor = tensor_of(each[i]);
      const Port& port = inputs_[i];
      if (tensor.is_cpu() != port.on_host || !(port.on_host || tensor.is_privateuseone())) throw elsewhere(i, tensor);
      if (tensor.scalar_type() != port.of_torch)
        throw Unfit("input " + std::to_string(i) + " is of type " + c10::toString(tensor.scalar_type()) + ", the graph takes " +
                    c10::toString(port.of_torch));
      name(given_[i], tensor, port, anew);
      if (port.on_host) on_host.push_back(tensor);
    }
  }
  Unfit elsewhere(size_t at, const at::Tensor& tensor) const {
    const std::string found = tensor.is_privateuseone() ? "npu" : c10::DeviceTypeName(tensor.device().type(), true);
    return Unfit("input " + std::to_string(at) + " lies on " + found + ", the graph wants it on " +
                 (inputs_[at].on_host ? "cpu" : "npu"));
  }
  // Whether all results have memory.
  bool name_results(PyObject* results, bool anew) {
    if (static_cast<size_t>(PySequence_Fast_GET_SIZE(results)) != taken_.size()) throw Unfit("results of another number");
    PyObject** const each = PySequence_Fast_ITEMS(results);
    bool whole = true;
    for (size_t i = 0; i < taken_.size(); ++i) {
      if (each[i] == Py_None) {
        taken_[i] = {};
        whole = false;
      } else {
        const at::Tensor& tensor = tensor_of(each[i]);
        if (!tensor.is_privateuseone()) throw Unfit("result " + std::to_string(i) + " does not lie on npu");
        name(taken_[i], tensor, results_[i], anew);
      }
    }
    return whole;
  }
  void launch(bool anew) {
    const c10_npu::NPUStream stream = c10_npu::getCurrentNPUStream();
    Memory& memory = memory_of(stream, engine_);
    int failed = 0;
    std::string said;
    {
      const WithoutLock other_threads;
      void* const handle = stream.stream();  // empties torch_npu's queue; throws what a launch in it has met
      failed = engine_.run(call_, handle, memory.allocator, given_.data(), taken_.data(), anew);
      if (failed) {
        said = engine_.error();
        engine_.done(call_);
      }
    }
    if (!failed) return;
    if (const std::string why = memory.failure(); !why.empty()) throw NoMemory(why);
    throw std::runtime_error(said.empty() ? "error " + std::to_string(failed) : said);
  }
  // The results, with tensors over what the engine took on the way.
  PyObject* with_taken(PyObject* results) {
    PyObject* made = PySequence_List(results);
    if (!made) return nullptr;
    try {
      for (size_t i = 0; i < taken_.size(); ++i) {
        if (PyList_GET_ITEM(made, i) != Py_None) continue;
        PyObject* const tensor = THPVariable_Wrap(over(taken_[i], results_[i]));
        if (!tensor || PyList_SetItem(made, i, tensor)) break;
      }
    } catch (...) {
      Py_DECREF(made);
      engine_.done(call_);
      throw;
    }
    engine_.done(call_);
    if (PyErr_Occurred()) Py_CLEAR(made);
    return made;
  }
  at::Tensor over(const Described& found, const Port& port) const {
    Memory& memory = memory_of(c10_npu::getCurrentNPUStream(), engine_);
    const at::Tensor block = memory.block(found.at);
    if (!block.defined() || found.type != port.type)
      throw std::runtime_error("a result of type " + std::to_string(found.type) + " (the graph has " + std::to_string(port.type) +
                               (block.defined() ? ")" : ") at an address that its allocator did not give"));
    const at::IntArrayRef sizes(found.dims, found.rank);
    const int64_t bytes = c10::multiply_integers(sizes) * static_cast<int64_t>(c10::elementSize(port.of_torch));
    return block.narrow(0, 0, bytes).view(port.of_torch).view(sizes);
  }

  const Functions engine_;
  void* const call_;
  const std::vector<Port> inputs_, results_;
  const bool is_fixed_;
  std::vector<Described> given_, taken_;
  std::vector<at::Tensor> host_;
  bool known_ = false;
};

// What is thrown becomes an exception of Python.
template <class Body>
PyObject* guarded(Body body) {
  try {
    return body();
  } catch (const Unfit& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const NoMemory& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

constexpr const char* kName = "air_geir.call";

std::vector<Port> ports(PyObject* described) {
  std::vector<Port> made;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(described); ++i) {
    int type = 0, on_host = 0;
    PyObject* of_torch = nullptr;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(described, i), "iO!p", &type, &THPDtypeType, &of_torch, &on_host))
      throw std::runtime_error("ports are triples");
    made.push_back({type, reinterpret_cast<THPDtype*>(of_torch)->scalar_type, on_host != 0});
  }
  return made;
}

// call(addresses of session.cpp's functions, number of the graph, inputs, results, whether all sizes are fixed)
PyObject* make(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *addresses = nullptr, *inputs = nullptr, *results = nullptr;
    unsigned int id = 0;
    int is_fixed = 0;
    if (!PyArg_ParseTuple(args, "SIO!O!p", &addresses, &id, &PyTuple_Type, &inputs, &PyTuple_Type, &results, &is_fixed))
      return nullptr;
    Functions engine;
    if (PyBytes_GET_SIZE(addresses) != sizeof(engine)) throw std::runtime_error("functions of another number");
    std::memcpy(&engine, PyBytes_AS_STRING(addresses), sizeof(engine));
    return PyCapsule_New(new Call(engine, id, ports(inputs), ports(results), is_fixed != 0), kName, [](PyObject* made) {
      delete static_cast<Call*>(PyCapsule_GetPointer(made, kName));
    });
  });
}

// run(call, inputs, results): the results, None replaced
PyObject* run(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    const auto listed = [](PyObject* object) { return PyTuple_Check(object) || PyList_Check(object); };
    if (count != 3 || !listed(args[1]) || !listed(args[2])) throw Unfit("a call, its inputs and its results are wanted");
    auto* const call = static_cast<Call*>(PyCapsule_GetPointer(args[0], kName));
    return call ? call->run(args[1], args[2]) : nullptr;
  });
}

PyMethodDef methods[] = {
    {"call", make, METH_VARARGS, "A graph of the engine, ready to be run."},
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run)), METH_FASTCALL, "Run it on the current stream."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module{PyModuleDef_HEAD_INIT, "calls", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
}  // namespace

PyMODINIT_FUNC PyInit_calls() { return PyModule_Create(&module); }
