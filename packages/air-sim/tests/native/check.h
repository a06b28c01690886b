// The little that the tests need: a check that says where it failed, and a list of tests.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

inline std::vector<std::pair<const char*, std::function<void()>>>& all_tests() {
  static std::vector<std::pair<const char*, std::function<void()>>> list;
  return list;
}
struct Registered {
  Registered(const char* name, std::function<void()> body) { all_tests().push_back({name, std::move(body)}); }
};
#define TEST(name)                                   \
  static void name();                                \
  static const Registered registered_##name(#name, name); \
  static void name()
#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);     \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)
#define CHECK_STATUS(call, wanted)                                                                    \
  do {                                                                                                \
    const int status_ = (call);                                                                       \
    if (status_ != (wanted)) {                                                                        \
      fprintf(stderr, "%s:%d: %s gave %d, not %d\n", __FILE__, __LINE__, #call, status_, (int)(wanted)); \
      exit(1);                                                                                        \
    }                                                                                                 \
  } while (0)
#define OK(call) CHECK_STATUS(call, 0)
