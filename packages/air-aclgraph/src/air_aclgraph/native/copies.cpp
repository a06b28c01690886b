// Copies tensors into the buffers of a captured graph by the driver's memory copy: one call of Python for all of them.
//
// A memory copy is what `Tensor.copy_` means only for some tensors, and that is asked in every call: `check` is
// torch's own comparison of type, dtype, device, sizes and strides with the buffers; the memory format, which a
// tensor of an NPU has besides, is asked of torch_npu; both addresses are aligned as the driver wants them.
// Drivers are Ascend's and CUDA's: the first is told how much room there is, and of the second 0 is a stream.
// Whatever is not so, and whatever the driver refuses, is copied by `careful`, which is a loop over `copy_`.

#include "python.h"

namespace {

constexpr int kDeviceToDevice = 3;
constexpr unsigned long kAlignment = 64;
constexpr long kElsewhere = -1;  // in place of a stream: nothing is copied by the driver now
constexpr long kFormats = 64;

using DataPtr = const void* (*)(Object* tensor);
using Format = long (*)(const void* const* tensor);  // a reference to at::Tensor, which is one pointer
using AclMemcpy = int (*)(void* to, unsigned long room, const void* from, unsigned long bytes, int kind, void* stream);
using CudaMemcpy = int (*)(void* to, const void* from, unsigned long bytes, int kind, void* stream);

struct Buffer {
    char* pointer;
    unsigned long bytes;
};

struct Copies {
    DataPtr data_ptr;
    Format format;  // null where memory has no formats
    void* memcpy_async;
    bool is_cuda;
    unsigned long plain;  // one bit for each format whose memory is what the strides say
    Object* check;        // check(*tensors): whether all are like the buffers
    Object* batched;      // batched(*tensors): used instead of the driver's copy, or null
    Object* careful;      // careful(*tensors): always right
    Object* stream;       // stream(device): what is queued has been launched, and the number of the stream
    Object* device;
    Object* address;      // the name of the attribute that is the address of the tensor inside torch
    long count;
    Buffer* buffers;
};

bool is_plain(const Copies& copies, Object* tensor) {
    Object* const number = PyObject_GetAttr(tensor, copies.address);
    if (number == nullptr) return false;
    const void* const address = PyLong_AsVoidPtr(number);
    Py_DecRef(number);
    if (address == nullptr) return false;
    const long format = copies.format(&address) + 1;  // -1 is "undefined"
    return format >= 0 && format < kFormats && (copies.plain >> format & 1) != 0;
}

int memcpy_async(const Copies& copies, const Buffer& to, const char* from, void* stream) {
    if (copies.is_cuda) {
        const auto call = reinterpret_cast<CudaMemcpy>(copies.memcpy_async);
        return call(to.pointer, from, to.bytes, kDeviceToDevice, stream);
    }
    const auto call = reinterpret_cast<AclMemcpy>(copies.memcpy_async);
    return call(to.pointer, to.bytes, from, to.bytes, kDeviceToDevice, stream);
}

bool are_apart(const char* one, const char* other, unsigned long bytes) {
    return one + bytes <= other || other + bytes <= one;
}

// 1: all are tensors of the device like the buffers, in plain formats; 0: not so; -1: an error of Python is set.
int are_alike(const Copies& copies, Object* const* tensors) {
    Object* const found = called(copies.check, tensors, copies.count);
    if (found == nullptr) return -1;
    const int alike = PyObject_IsTrue(found);
    Py_DecRef(found);
    if (alike != 1) return alike;
    for (long i = 0; i < copies.count && copies.format != nullptr; ++i) {
        if (!is_plain(copies, tensors[i])) return PyErr_Occurred() == nullptr ? 0 : -1;
    }
    return 1;
}

// 1: copied; 0: not copied, or not all; -1: an error of Python is set.
int copy_memory(const Copies& copies, Object* const* tensors) {
    Object* const number = called(copies.stream, &copies.device, 1);
    if (number == nullptr) return -1;
    void* const stream = PyLong_AsVoidPtr(number);
    Py_DecRef(number);
    if (PyErr_Occurred() != nullptr) return -1;
    if (stream == reinterpret_cast<void*>(kElsewhere) || (stream == nullptr && !copies.is_cuda)) return 0;
    for (long i = 0; i < copies.count; ++i) {
        const Buffer& to = copies.buffers[i];
        const char* const from = static_cast<const char*>(copies.data_ptr(tensors[i]));
        if (reinterpret_cast<unsigned long>(from) % kAlignment != 0 || !are_apart(from, to.pointer, to.bytes)) return 0;
        if (memcpy_async(copies, to, from, stream) != 0) return 0;
    }
    return 1;
}

Object* copy(Object* self, Object* const* tensors, long given) {
    const auto& copies = *static_cast<const Copies*>(PyCapsule_GetPointer(self, nullptr));
    int found = 0;
    if (given == copies.count) {
        try {
            found = are_alike(copies, tensors);
            if (found == 1 && copies.batched == nullptr) found = copy_memory(copies, tensors);
        } catch (...) {  // torch's refusal of a tensor that is none of its own: `careful` says so
            found = 0;
        }
    }
    if (found < 0) return nullptr;
    if (found == 1 && copies.batched == nullptr) return PyBool_FromLong(1);
    return called(found == 1 ? copies.batched : copies.careful, tensors, given);
}

void destroy(Object* capsule) {
    auto* const copies = static_cast<Copies*>(PyCapsule_GetPointer(capsule, nullptr));
    Object* const held[] = {copies->check, copies->batched, copies->careful, copies->stream, copies->device, copies->address};
    for (Object* one : held) {
        if (one != nullptr) Py_DecRef(one);
    }
    delete[] copies->buffers;
    delete copies;
}

MethodDef copy_method = {"copy_inputs", copy, kFastCall, nullptr};

}

// `objects` are check, batched or null, careful, stream, device, address; the builtin holds them.
extern "C" __attribute__((visibility("default"))) Object* air_copies(
    DataPtr data_ptr, Format format, void* memcpy_async, unsigned long plain, Object* const* objects, long count,
    void* const* pointers, const unsigned long* bytes, int is_cuda) {
    auto* const buffers = new Buffer[count];
    for (long i = 0; i < count; ++i) buffers[i] = {static_cast<char*>(pointers[i]), bytes[i]};
    for (long i = 0; i < 6; ++i) {
        if (objects[i] != nullptr) Py_IncRef(objects[i]);
    }
    return builtin(
        &copy_method,
        new Copies{data_ptr, format, memcpy_async, is_cuda != 0, plain, objects[0], objects[1], objects[2], objects[3], objects[4],
                   objects[5], count, buffers},
        destroy);
}
