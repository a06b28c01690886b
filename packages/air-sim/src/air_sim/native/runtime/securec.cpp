// The bounded string functions that TorchAir's extension expects from the toolkit's libraries.
#include "air_sim/runtime.h"
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace {
const int kRangeError = 34;  // ERANGE: what callers compare against is "not zero"
}

AIR_SIM_API int vsnprintf_s(char* out, size_t capacity, size_t count, const char* format, va_list arguments) {
  const size_t limit = count < capacity ? count + 1 : capacity;
  const int written = vsnprintf(out, limit, format, arguments);
  return written < 0 || static_cast<size_t>(written) >= limit ? -1 : written;
}
AIR_SIM_API int snprintf_s(char* out, size_t capacity, size_t count, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = vsnprintf_s(out, capacity, count, format, arguments);
  va_end(arguments);
  return written;
}
AIR_SIM_API int strcpy_s(char* out, size_t capacity, const char* text) {
  const size_t length = strlen(text);
  if (length >= capacity) return kRangeError;
  memcpy(out, text, length + 1);
  return 0;
}
AIR_SIM_API int memcpy_s(void* out, size_t capacity, const void* from, size_t count) {
  if (count > capacity) return kRangeError;
  memcpy(out, from, count);
  return 0;
}
