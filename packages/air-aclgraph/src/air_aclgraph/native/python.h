// What the builtins here use of Python's stable ABI, declared without a header of Python or of torch.
#pragma once

extern "C" {

using Object = void;

struct MethodDef {
    const char* name;
    Object* (*function)(Object* self, Object* const* args, long count);
    int flags;
    const char* doc;
};

Object* PyBool_FromLong(long value);
Object* PyCFunction_NewEx(MethodDef* method, Object* self, Object* module);
Object* PyCapsule_New(void* pointer, const char* name, void (*destroy)(Object* capsule));
void* PyCapsule_GetPointer(Object* capsule, const char* name);
// Python 3.10 has it in a header alone: null there.
__attribute__((weak)) Object* PyObject_Vectorcall(Object* callable, Object* const* args, unsigned long count, Object* names);
Object* PyObject_CallObject(Object* callable, Object* args);
Object* PyObject_GetAttr(Object* object, Object* name);
int PyObject_IsTrue(Object* object);
Object* PyTuple_New(long count);
int PyTuple_SetItem(Object* tuple, long index, Object* item);  // takes the reference
Object* PyList_GetItem(Object* list, long index);
Object* PyDict_GetItem(Object* dict, Object* key);
long PyLong_AsLong(Object* number);
void* PyLong_AsVoidPtr(Object* number);
Object* PyErr_Occurred();
void Py_DecRef(Object* object);
void Py_IncRef(Object* object);

}

constexpr int kVarArgs = 0x0001;
constexpr int kFastCall = 0x0080;

// Calls with these arguments.
inline Object* called(Object* callable, Object* const* args, long count) {
    if (PyObject_Vectorcall != nullptr) return PyObject_Vectorcall(callable, args, count, nullptr);
    Object* const tuple = PyTuple_New(count);
    if (tuple == nullptr) return nullptr;
    for (long i = 0; i < count; ++i) {
        Py_IncRef(args[i]);
        PyTuple_SetItem(tuple, i, args[i]);
    }
    Object* const result = PyObject_CallObject(callable, tuple);
    Py_DecRef(tuple);
    return result;
}

// A builtin that owns `state`, which `destroy` deletes; null with Python's error set when memory is short.
inline Object* builtin(MethodDef* method, void* state, void (*destroy)(Object* capsule)) {
    Object* const capsule = PyCapsule_New(state, nullptr, destroy);
    if (capsule == nullptr) return nullptr;
    Object* const made = PyCFunction_NewEx(method, capsule, nullptr);
    Py_DecRef(capsule);
    return made;
}
