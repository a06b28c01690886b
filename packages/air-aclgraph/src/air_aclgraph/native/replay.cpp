// The call of one captured shape key that finds everything as it was, from the first test to the outputs.
//
// `careful` is the function in Python that does the same and knows whatever else there may be.  It is called as soon as a
// test says that something is not as it was, and all tests come before anything is done.  In Python the same steps cost
// two microseconds more: when a call comes, Dynamo's guards have filled the processor's caches, and every object that the
// interpreter touches is fetched from far away.

#include "python.h"

namespace {

using DataPtr = const void* (*)(Object* tensor);

// The objects of a call, in the order in which they are handed over; None where there is none.
struct Objects {
    Object* careful;     // careful(args)
    Object* failed;      // failed(error): raises it as it is told to the user
    Object* profiler;    // the namespace in which
    Object* enabled;     // this name says whether a profiler records
    Object* turn;        // a list: [whether a replay is under way]; None where nothing can be called inside one
    Object* current;     // current(): the number of the caller's stream
    Object* last;        // a list: [that of the last replay]
    Object* same;        // same(*args): whether the inputs are where they were
    Object* owners;      // owners(storage): of a storage by its number
    Object* references;  // references(object)
    Object* copy;        // copy(*inputs)
    Object* replay;      // replay()
    Object* count;       // a list: [replays of this key]
    Object* counters;    // Dynamo's counters, of which
    Object* group;       // this one is ours
    Object* data;        // the name of the attribute that is a new tensor over the same memory
};

// Memory of the capture that callers are lent: free when its storage has the owners and references that it has then.
struct Loan {
    Object* storage;
    long owners;
    Object* object;
    Object* tensor;
    const void* pointer;
};

// A new tensor over `tensor`, or the argument `index`, or `value`, or what `value` makes where `index` is `kMade`.
struct Output {
    Object* tensor;
    Object* value;
    long index;
};

struct Sum {
    Object* name;
    long number;
};

struct Replay {
    Object* held;  // the tuple of all the objects that are named here
    DataPtr data_ptr;
    Objects objects;
    long references;
    long loan_count, copied_count, sum_count, output_count;
    Loan* loans;
    long* copied;
    Sum* sums;
    Output* outputs;
};

constexpr long kMade = -2;
constexpr long kObjects = sizeof(Objects) / sizeof(Object*);

// 1: no test finds anything changed; 0: one does; -1: an error of Python is set.
int is_as_it_was(const Replay& replay, Object* args) {
    const Objects& o = replay.objects;
    Object* const enabled = PyDict_GetItem(o.profiler, o.enabled);
    if (enabled == nullptr || PyObject_IsTrue(enabled) != 0) return 0;
    if (o.turn != none() && PyObject_IsTrue(PyList_GetItem(o.turn, 0)) != 0) return 0;
    if (o.current != none()) {
        const long stream = number_of(o.current, nullptr, 0);
        if (PyErr_Occurred() != nullptr) return -1;
        if (stream != PyLong_AsLong(PyList_GetItem(o.last, 0))) return 0;
    }
    if (o.same != none()) {
        Object* const found = PyObject_CallObject(o.same, args);
        if (found == nullptr) return -1;
        const int same = PyObject_IsTrue(found);
        Py_DecRef(found);
        if (same != 1) return same;
    }
    for (long i = 0; i < replay.loan_count; ++i) {
        const Loan& loan = replay.loans[i];
        if (number_of(o.owners, &loan.storage, 1) != loan.owners) return PyErr_Occurred() == nullptr ? 0 : -1;
        if (number_of(o.references, &loan.object, 1) != replay.references) return PyErr_Occurred() == nullptr ? 0 : -1;
        try {
            if (replay.data_ptr(loan.tensor) != loan.pointer) return 0;
        } catch (...) {
            return 0;
        }
    }
    return 1;
}

bool copy_inputs(const Replay& replay, Object* args) {
    constexpr long kMost = 64;
    Object* few[kMost];
    Object** const inputs = replay.copied_count > kMost ? new Object*[replay.copied_count] : few;
    for (long i = 0; i < replay.copied_count; ++i) inputs[i] = PyTuple_GetItem(args, replay.copied[i]);
    const bool copied = did(replay.objects.copy, inputs, replay.copied_count);
    if (inputs != few) delete[] inputs;
    return copied;
}

bool count_call(const Replay& replay) {
    const Objects& o = replay.objects;
    const long replays = PyLong_AsLong(PyList_GetItem(o.count, 0));
    if (PyList_SetItem(o.count, 0, PyLong_FromLong(replays + 1)) != 0) return false;
    Object* const counts = PyObject_GetItem(o.counters, o.group);
    if (counts == nullptr) return false;
    bool counted = true;
    for (long i = 0; i < replay.sum_count && counted; ++i) {
        counted = add(counts, replay.sums[i].name, replay.sums[i].number);
    }
    Py_DecRef(counts);
    return counted;
}

Object* output_of(const Replay& replay, const Output& output, Object* args) {
    if (output.tensor != nullptr) return PyObject_GetAttr(output.tensor, replay.objects.data);
    if (output.index == kMade) return called(output.value, nullptr, 0);
    Object* const value = output.value != nullptr ? output.value : PyTuple_GetItem(args, output.index);
    if (value != nullptr) Py_IncRef(value);
    return value;
}

Object* outputs_of(const Replay& replay, Object* args) {
    Object* const outputs = PyTuple_New(replay.output_count);
    for (long i = 0; i < replay.output_count && outputs != nullptr; ++i) {
        Object* const output = output_of(replay, replay.outputs[i], args);
        if (output == nullptr) {
            Py_DecRef(outputs);
            return nullptr;
        }
        PyTuple_SetItem(outputs, i, output);
    }
    return outputs;
}

Object* replayed(const Replay& replay, Object* args) {
    if (replay.copied_count != 0 && !copy_inputs(replay, args)) return nullptr;
    if (!did(replay.objects.replay, nullptr, 0)) return nullptr;
    if (!count_call(replay)) return nullptr;
    return outputs_of(replay, args);
}

void set_turn(const Replay& replay, long taken) {
    if (replay.objects.turn != none()) PyList_SetItem(replay.objects.turn, 0, PyBool_FromLong(taken));
}

// Hands the error that is set to `failed`, which raises it.
Object* raised(const Replay& replay) {
    Object *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    if (trace != nullptr) PyException_SetTraceback(error, trace);
    Object* const result = called(replay.objects.failed, &error, 1);
    Object* const held[] = {kind, error, trace};
    for (Object* one : held) {
        if (one != nullptr) Py_DecRef(one);
    }
    return result;
}

Object* enter(Object* self, Object* args) {
    const auto& replay = *static_cast<const Replay*>(PyCapsule_GetPointer(self, nullptr));
    if (PyTuple_Size(args) < 0) {  // a list, off the path of most calls
        PyErr_Clear();
        return called(replay.objects.careful, &args, 1);
    }
    const int as_it_was = is_as_it_was(replay, args);
    if (as_it_was == 0) return called(replay.objects.careful, &args, 1);
    if (as_it_was < 0) return raised(replay);
    set_turn(replay, 1);
    Object* const outputs = replayed(replay, args);
    if (outputs == nullptr) {
        Object* const none_either = raised(replay);
        Object *kind, *error, *trace;
        PyErr_Fetch(&kind, &error, &trace);
        set_turn(replay, 0);
        PyErr_Restore(kind, error, trace);
        return none_either;
    }
    set_turn(replay, 0);
    return outputs;
}

void destroy(Object* capsule) {
    auto* const replay = static_cast<Replay*>(PyCapsule_GetPointer(capsule, nullptr));
    Py_DecRef(replay->held);
    delete[] replay->loans;
    delete[] replay->copied;
    delete[] replay->sums;
    delete[] replay->outputs;
    delete replay;
}

MethodDef enter_method = {"replayed", reinterpret_cast<Object* (*)(Object*, Object* const*, long)>(enter), kOne, nullptr};

long number_at(Object* tuple, long place) { return PyLong_AsLong(PyTuple_GetItem(tuple, place)); }

// The items of a tuple of tuples, each made by `make`.
template <class Item, class Make>
Item* each(Object* tuple, long& count, Make make) {
    count = PyTuple_Size(tuple);
    auto* const items = new Item[count];
    for (long i = 0; i < count; ++i) items[i] = make(PyTuple_GetItem(tuple, i));
    return items;
}

Loan loan_of(Object* one) {
    return {PyTuple_GetItem(one, 0), number_at(one, 1), PyTuple_GetItem(PyTuple_GetItem(one, 2), 0), PyTuple_GetItem(one, 3),
            PyLong_AsVoidPtr(PyTuple_GetItem(one, 4))};
}

Output output_of(Object* one) {
    Object* const tensor = PyTuple_GetItem(one, 0);
    const long index = number_at(one, 2);
    return {tensor == none() ? nullptr : tensor, tensor == none() && index < 0 ? PyTuple_GetItem(one, 1) : nullptr, index};
}

}

// `held` is a tuple: the objects of a call; loans as (number of the storage, owners, tuple of one, tensor, address);
// indices of copied inputs; counters as (name, what is added); outputs as (tensor or None, value, index, -1 or -2); and
// a tuple of one that holds a storage nobody else has, whose references are those of a loan that is free.
extern "C" __attribute__((visibility("default"))) Object* air_replay(DataPtr data_ptr, Object* held) {
    auto* const replay = new Replay{};
    replay->held = held;
    replay->data_ptr = data_ptr;
    Object* const objects = PyTuple_GetItem(held, 0);
    auto** const named = reinterpret_cast<Object**>(&replay->objects);
    for (long i = 0; i < kObjects; ++i) named[i] = PyTuple_GetItem(objects, i);
    replay->loans = each<Loan>(PyTuple_GetItem(held, 1), replay->loan_count, loan_of);
    replay->copied = each<long>(PyTuple_GetItem(held, 2), replay->copied_count, PyLong_AsLong);
    replay->sums = each<Sum>(PyTuple_GetItem(held, 3), replay->sum_count,
                             [](Object* one) { return Sum{PyTuple_GetItem(one, 0), number_at(one, 1)}; });
    replay->outputs =
        each<Output>(PyTuple_GetItem(held, 4), replay->output_count, [](Object* one) { return output_of(one); });
    Object* const alone = PyTuple_GetItem(PyTuple_GetItem(held, 5), 0);
    replay->references = number_of(replay->objects.references, &alone, 1);
    Py_IncRef(held);
    return builtin(&enter_method, replay, destroy);
}
