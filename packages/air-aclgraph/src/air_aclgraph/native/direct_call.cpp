// What Dynamo calls for a graph whose executor needs nothing around it: hands the tuple of arguments on as it is.
//
// A Python function of `*args` copies its arguments twice, once into its frame and once into a tuple: for hundreds of
// parameters that is a part of the call.  `cell` is a list of one: the executor, or None as long as it is not known
// that it may be called; `careful` takes the arguments then, and also under autocast, with gradients on, inside a mode
// of torch functions, or inside a level of forward-mode AD. `levels` is the namespace of torch's module for that, and
// `level` the name of the level in it.

#include "python.h"

namespace {

struct DirectCall {
    Object* cell;
    Object* casts;
    Object* gradients;
    Object* modes;
    Object* careful;
    Object* levels;
    Object* level;
};

bool is_inside_level(const DirectCall& direct_call) {
    Object* const level = PyDict_GetItem(direct_call.levels, direct_call.level);
    return level == nullptr || PyLong_AsLong(level) >= 0;
}

Object* enter(Object* self, Object* args) {
    const auto& direct_call = *static_cast<const DirectCall*>(PyCapsule_GetPointer(self, nullptr));
    Object* const run = PyList_GetItem(direct_call.cell, 0);
    if (run == nullptr) return nullptr;
    int around = PyObject_IsTrue(run) == 1 && !is_inside_level(direct_call) ? 0 : 1;
    if (around == 0) around = says(direct_call.casts, nullptr, 0);
    if (around == 0) around = says(direct_call.gradients, nullptr, 0);
    if (around == 0) around = says(direct_call.modes, nullptr, 0);
    if (around < 0) return nullptr;
    if (around == 1) return PyObject_CallObject(direct_call.careful, args);
    Py_IncRef(run);
    Object* const outputs = called(run, &args, 1);
    Py_DecRef(run);
    return outputs;
}

void destroy(Object* capsule) {
    auto* const direct_call = static_cast<DirectCall*>(PyCapsule_GetPointer(capsule, nullptr));
    Object* const held[] = {direct_call->cell,    direct_call->casts,  direct_call->gradients, direct_call->modes,
                            direct_call->careful, direct_call->levels, direct_call->level};
    for (Object* one : held) Py_DecRef(one);
    delete direct_call;
}

MethodDef enter_method = {"captured_graph", reinterpret_cast<Object* (*)(Object*, Object* const*, long)>(enter), kVarArgs,
                          nullptr};

}

// The builtin holds its objects.
extern "C" __attribute__((visibility("default"))) Object* air_direct_call(
    Object* cell, Object* casts, Object* gradients, Object* modes, Object* careful, Object* levels, Object* level) {
    Object* const held[] = {cell, casts, gradients, modes, careful, levels, level};
    for (Object* one : held) Py_IncRef(one);
    return builtin(&enter_method, new DirectCall{cell, casts, gradients, modes, careful, levels, level}, destroy);
}
