// What the two libraries of the binding say to each other: session.cpp knows the Graph Engine, calls.cpp knows torch. Their
// strings may differ in memory, so that only C passes between them.
#pragma once
#include <cstddef>
#include <cstdint>

// One tensor of a call: a result whose memory is not known yet has none.
struct Described {
  void* at;
  int64_t bytes;
  int32_t type;
  int32_t placement;
  int32_t rank;
  int32_t padding;
  int64_t dims[32];
};

// Memory that the engine asks for while it runs, and gives back.
using Take = void* (*)(void* memory, size_t bytes);
using Give = void (*)(void* memory, void* at);

// Functions of session.cpp, in the order in which their addresses are handed over.
struct Functions {
  const char* (*error)();
  void* (*allocator)(void* memory, Take take, Give give);
  void* (*call)(uint32_t id, size_t inputs, size_t results);
  int (*run)(void* call, void* stream, void* allocator, const Described* inputs, Described* results, int anew);
  void (*done)(void* call);
  void (*drop)(void* call);
};
