// The call of a graph that has one shape key: its lock, the function of that key, and a count.
//
// `cell` is a list of one: the function of the captured key, or None.  Where it is None, or gives None, the call is none
// that can be replayed, and `off_path` takes it.

#include "python.h"

namespace {

struct Keyless {
    Object* acquire;
    Object* release;
    Object* cell;
    Object* off_path;
    Object* counters;
    Object* group;
    Object* calls;
};

Object* outputs_of(const Keyless& keyless, Object* args) {
    Object* const run = PyList_GetItem(keyless.cell, 0);
    if (run == nullptr) return nullptr;
    if (run == none()) return called(keyless.off_path, &args, 1);
    Py_IncRef(run);  // a call may put another one there
    Object* const outputs = called(run, &args, 1);
    Py_DecRef(run);
    if (outputs != none()) return outputs;
    Py_DecRef(outputs);
    return called(keyless.off_path, &args, 1);
}

bool count(const Keyless& keyless) {
    Object* const counts = PyObject_GetItem(keyless.counters, keyless.group);
    if (counts == nullptr) return false;
    const bool counted = add(counts, keyless.calls, 1);
    Py_DecRef(counts);
    return counted;
}

Object* enter(Object* self, Object* args) {
    const auto& keyless = *static_cast<const Keyless*>(PyCapsule_GetPointer(self, nullptr));
    if (!did(keyless.acquire, nullptr, 0)) return nullptr;  // an interrupt while it waited: it has not got the lock
    Object* outputs = outputs_of(keyless, args);
    if (outputs != nullptr && !count(keyless)) {
        Py_DecRef(outputs);
        outputs = nullptr;
    }
    Object *kind = nullptr, *error = nullptr, *trace = nullptr;
    if (outputs == nullptr) PyErr_Fetch(&kind, &error, &trace);
    const bool released = did(keyless.release, nullptr, 0);
    if (outputs == nullptr) {
        PyErr_Restore(kind, error, trace);
    } else if (!released) {
        Py_DecRef(outputs);
        outputs = nullptr;
    }
    return outputs;
}

void destroy(Object* capsule) {
    auto* const keyless = static_cast<Keyless*>(PyCapsule_GetPointer(capsule, nullptr));
    Object* const held[] = {keyless->acquire, keyless->release, keyless->cell, keyless->off_path,
                            keyless->counters, keyless->group, keyless->calls};
    for (Object* one : held) Py_DecRef(one);
    delete keyless;
}

auto* const with_args = reinterpret_cast<Object* (*)(Object*, Object* const*, long)>(enter);
MethodDef given_one = {"keyless", with_args, kOne, nullptr};
MethodDef given_all = {"keyless", with_args, kVarArgs, nullptr};

}

// The builtin holds its objects.  It is given the arguments of the graph in one sequence, or each by itself.
extern "C" __attribute__((visibility("default"))) Object* air_keyless(
    Object* acquire, Object* release, Object* cell, Object* off_path, Object* counters, Object* group, Object* calls,
    int each_by_itself) {
    Object* const held[] = {acquire, release, cell, off_path, counters, group, calls};
    for (Object* one : held) Py_IncRef(one);
    return builtin(each_by_itself != 0 ? &given_all : &given_one, new Keyless{acquire, release, cell, off_path, counters, group, calls}, destroy);
}
