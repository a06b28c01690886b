// The protobuf wire format, as far as reading a graph needs it: numbered fields, no schema.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace air_sim::graph_engine {
struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
  std::string str() const { return {reinterpret_cast<const char*>(data), size}; }
};
struct Field {
  int number;
  int wire_type;
  uint64_t value;  // of a varint or fixed field
  Bytes bytes;     // of a length-delimited field
};
// The fields of a message; throws on bytes that are none.
std::vector<Field> fields(Bytes message);
// Appends the values of a repeated integer field, packed or not.
void append_ints(const Field& field, std::vector<int64_t>& out);
void append_floats(const Field& field, std::vector<float>& out);
}  // namespace air_sim::graph_engine
