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
Object* PyObject_GetItem(Object* object, Object* key);
int PyObject_SetItem(Object* object, Object* key, Object* value);
int PyObject_IsTrue(Object* object);
Object* PyTuple_New(long count);
int PyTuple_SetItem(Object* tuple, long index, Object* item);  // takes the reference
Object* PyTuple_GetItem(Object* tuple, long index);
long PyTuple_Size(Object* tuple);
Object* PyList_GetItem(Object* list, long index);
int PyList_SetItem(Object* list, long index, Object* item);  // takes the reference
Object* PyDict_GetItem(Object* dict, Object* key);
Object* PyLong_FromLong(long number);
long PyLong_AsLong(Object* number);
void* PyLong_AsVoidPtr(Object* number);
Object* PyErr_Occurred();
void PyErr_Clear();
void PyErr_Fetch(Object** kind, Object** value, Object** trace);
void PyErr_NormalizeException(Object** kind, Object** value, Object** trace);
void PyErr_Restore(Object* kind, Object* value, Object* trace);
int PyException_SetTraceback(Object* error, Object* trace);
void Py_DecRef(Object* object);
void Py_IncRef(Object* object);
extern char _Py_NoneStruct;

}

inline Object* none() { return &_Py_NoneStruct; }

constexpr int kVarArgs = 0x0001;
constexpr int kOne = 0x0008;
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

// Calls with these arguments and drops what it gives; false: an error of Python is set.
inline bool did(Object* callable, Object* const* args, long count) {
    Object* const result = called(callable, args, count);
    if (result == nullptr) return false;
    Py_DecRef(result);
    return true;
}

// What `take` reads off the result of a call; -1 with an error of Python where the call gives none.
template <class Taken>
Taken taken(Object* callable, Object* const* args, long count, Taken (*take)(Object* result)) {
    Object* const result = called(callable, args, count);
    if (result == nullptr) return -1;
    const Taken found = take(result);
    Py_DecRef(result);
    return found;
}

// 1 or 0: what a call says; -1: an error of Python is set.
inline int says(Object* callable, Object* const* args, long count) { return taken(callable, args, count, PyObject_IsTrue); }

// The number that a call gives; -1 with an error of Python where it gives none.
inline long number_of(Object* callable, Object* const* args, long count) { return taken(callable, args, count, PyLong_AsLong); }

// counts[name] += number; false: an error of Python is set.
inline bool add(Object* counts, Object* name, long number) {
    Object* const before = PyObject_GetItem(counts, name);
    if (before == nullptr) return false;
    Object* const after = PyLong_FromLong(PyLong_AsLong(before) + number);
    Py_DecRef(before);
    if (after == nullptr) return false;
    const int failed = PyObject_SetItem(counts, name, after);
    Py_DecRef(after);
    return failed == 0;
}

// A builtin that owns `state`, which `destroy` deletes; null with Python's error set when memory is short.
inline Object* builtin(MethodDef* method, void* state, void (*destroy)(Object* capsule)) {
    Object* const capsule = PyCapsule_New(state, nullptr, destroy);
    if (capsule == nullptr) return nullptr;
    Object* const made = PyCFunction_NewEx(method, capsule, nullptr);
    Py_DecRef(capsule);
    return made;
}
