// Compares the addresses of many tensors with recorded ones: one call, a few nanoseconds per tensor.
//
// It needs no header, of Python or of torch: the two functions it calls are handed over or found in the process.

extern "C" {

void* PyList_GetItem(void* list, long index);

struct Expected {
    void* (*data_ptr)(void* tensor);
    long count;
    const long* indices;
    void* const* pointers;
};

// 1: every tensor is where it was; 0: one has moved; -1: an argument is no tensor with memory.
__attribute__((visibility("default"))) int air_same_addresses(const Expected* expected, void* list) {
    try {
        for (long i = 0; i < expected->count; ++i) {
            void* tensor = PyList_GetItem(list, expected->indices[i]);
            if (expected->data_ptr(tensor) != expected->pointers[i]) return 0;
        }
        return 1;
    } catch (...) {
        return -1;
    }
}

}
