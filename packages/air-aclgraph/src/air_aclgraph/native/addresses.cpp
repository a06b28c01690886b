// Compares the addresses of many tensors with recorded ones: one call, a few nanoseconds per tensor.
//
// What is called is in Python's stable ABI, and torch's entry for generated code is handed over.
//
// When the test runs, Dynamo's guards have just filled the processor's caches with other things.  The storages of the
// tensors are therefore asked for a few tensors ahead, at the place where they were when the test was made.  That is a
// hint and nothing more: what is compared is read through the tensors of the call.

#include "python.h"

namespace {

constexpr long kAhead = 16;
constexpr long kStorageBytes = 64;

struct Place {
    long index;
    const void* pointer;
    const char* storage;
};

struct Expected {
    const void* (*data_ptr)(Object* tensor);
    Object* careful;
    long count;
    Place* places;
};

// 1: every tensor is where it was; 0: one has moved; -1: an argument is no tensor with memory.
int compare(const Expected& expected, Object* const* args, long given) {
    const Place* const end = expected.places + expected.count;
    try {
        for (const Place* place = expected.places; place != end; ++place) {
            if (end - place > kAhead) {
                __builtin_prefetch(place[kAhead].storage);
                __builtin_prefetch(place[kAhead].storage + kStorageBytes - 1);
            }
            if (place->index >= given) return -1;
            if (expected.data_ptr(args[place->index]) != place->pointer) return 0;
        }
        return 1;
    } catch (...) {
        return -1;
    }
}

Object* same(Object* self, Object* const* args, long given) {
    const auto& expected = *static_cast<const Expected*>(PyCapsule_GetPointer(self, nullptr));
    const int found = compare(expected, args, given);
    return found < 0 ? PyObject_Vectorcall(expected.careful, args, given, nullptr) : PyBool_FromLong(found);
}

void destroy(Object* capsule) {
    auto* const expected = static_cast<Expected*>(PyCapsule_GetPointer(capsule, nullptr));
    Py_DecRef(expected->careful);
    delete[] expected->places;
    delete expected;
}

MethodDef same_method = {"same_addresses", same, kFastCall, nullptr};

}

// A function of the arguments of a call; `careful` takes the same and is called when an argument is no tensor.
extern "C" __attribute__((visibility("default"))) Object* air_address_test(
    const void* (*data_ptr)(Object* tensor), Object* careful, long count, const long* indices,
    const void* const* pointers, const char* const* storages) {
    auto* const places = new Place[count];
    for (long i = 0; i < count; ++i) places[i] = {indices[i], pointers[i], storages[i]};
    Py_IncRef(careful);
    return builtin(&same_method, new Expected{data_ptr, careful, count, places}, destroy);
}
