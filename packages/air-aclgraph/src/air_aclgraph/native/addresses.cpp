// Compares the addresses of many tensors with recorded ones: one call, a few nanoseconds per tensor.
//
// What is called is in Python's stable ABI, and torch's entry for generated code is handed over.
//
// When the test runs, Dynamo's guards have just filled the processor's caches with other things.  The storages of the
// tensors are therefore asked for a few tensors ahead, at the place where they were when the test was made.  That is a
// hint and nothing more: what is compared is read through the tensors of the call.
//
// A replay that goes through the tensors of the capture follows their storages, which may be emptied and filled again
// elsewhere. For such a one `home` says where in a storage the pointer to its memory is, and that has to be what it was
// as well; the caller keeps the storages. Where it is negative, storages are not looked at.

#include "python.h"

namespace {

constexpr long kAhead = 16;
constexpr long kStorageBytes = 64;

// What is read of each tensor in each call; nothing else is beside it, since all of it is fetched from far away.
struct Place {
    const void* pointer;
    const char* storage;
};

struct Expected {
    const void* (*data_ptr)(Object* tensor);
    Object* careful;
    long count;
    long home;
    Place* places;
    unsigned* indices;
    const void** memories;  // null where storages are not looked at
};

const void* memory_of(const char* storage, long home) {
    return *reinterpret_cast<const void* const*>(storage + home);
}

// 1: every tensor is where it was; 0: one has moved; -1: an argument is no tensor with memory.
int compare(const Expected& expected, Object* const* args, long given) {
    const Place* const places = expected.places;
    try {
        for (long i = 0; i < expected.count; ++i) {
            if (i + kAhead < expected.count) {
                __builtin_prefetch(places[i + kAhead].storage);
                __builtin_prefetch(places[i + kAhead].storage + kStorageBytes - 1);
            }
            if (expected.indices[i] >= given) return -1;
            if (expected.data_ptr(args[expected.indices[i]]) != places[i].pointer) return 0;
            if (expected.memories != nullptr && memory_of(places[i].storage, expected.home) != expected.memories[i]) return 0;
        }
        return 1;
    } catch (...) {
        return -1;
    }
}

Object* same(Object* self, Object* const* args, long given) {
    const auto& expected = *static_cast<const Expected*>(PyCapsule_GetPointer(self, nullptr));
    const int found = compare(expected, args, given);
    return found < 0 ? called(expected.careful, args, given) : PyBool_FromLong(found);
}

void destroy(Object* capsule) {
    auto* const expected = static_cast<Expected*>(PyCapsule_GetPointer(capsule, nullptr));
    Py_DecRef(expected->careful);
    delete[] expected->places;
    delete[] expected->indices;
    delete[] expected->memories;
    delete expected;
}

MethodDef same_method = {"same_addresses", same, kFastCall, nullptr};

}

// A function of the arguments of a call; `careful` takes the same and is called when an argument is no tensor.
extern "C" __attribute__((visibility("default"))) Object* air_address_test(
    const void* (*data_ptr)(Object* tensor), Object* careful, long count, const long* indices,
    const void* const* pointers, const char* const* storages, long home) {
    auto* const places = new Place[count];
    auto* const numbers = new unsigned[count];
    auto* const memories = home < 0 ? nullptr : new const void*[count];
    for (long i = 0; i < count; ++i) {
        places[i] = {pointers[i], storages[i]};
        numbers[i] = static_cast<unsigned>(indices[i]);
        if (memories != nullptr) memories[i] = memory_of(storages[i], home);
    }
    Py_IncRef(careful);
    return builtin(&same_method, new Expected{data_ptr, careful, count, home, places, numbers, memories}, destroy);
}
