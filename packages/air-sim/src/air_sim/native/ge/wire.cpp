// Reads the protobuf wire format.
#include "wire.h"

#include <cstring>
#include <stdexcept>

namespace air_sim::graph_engine {
namespace {
constexpr int kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5;

class Reader {
 public:
  explicit Reader(Bytes message) : message_(message) {}
  bool at_end() const { return at_ >= message_.size; }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = *take(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw std::runtime_error("the graph is not a protobuf message: a number has no end");
  }
  const uint8_t* take(size_t count) {
    if (count > message_.size - at_) throw std::runtime_error("the graph is not a protobuf message: it is cut short");
    const uint8_t* p = message_.data + at_;
    at_ += count;
    return p;
  }

 private:
  Bytes message_;
  size_t at_ = 0;
};
}  // namespace

std::vector<Field> fields(Bytes message) {
  std::vector<Field> found;
  for (Reader reader(message); !reader.at_end();) {
    const uint64_t tag = reader.varint();
    Field field{static_cast<int>(tag >> 3), static_cast<int>(tag & 7), 0, {}};
    switch (field.wire_type) {
      case kVarint: field.value = reader.varint(); break;
      case kFixed64: memcpy(&field.value, reader.take(8), 8); break;
      case kFixed32: memcpy(&field.value, reader.take(4), 4); break;
      case kDelimited: {
        const size_t size = reader.varint();
        field.bytes = {reader.take(size), size};
        break;
      }
      default: throw std::runtime_error("the graph is not a protobuf message: unknown wire type");
    }
    found.push_back(field);
  }
  return found;
}
void append_ints(const Field& field, std::vector<int64_t>& out) {
  if (field.wire_type != kDelimited) {
    out.push_back(static_cast<int64_t>(field.value));
    return;
  }
  for (Reader reader(field.bytes); !reader.at_end();) out.push_back(static_cast<int64_t>(reader.varint()));
}
void append_floats(const Field& field, std::vector<float>& out) {
  const bool packed = field.wire_type == kDelimited;
  const uint8_t* data = packed ? field.bytes.data : reinterpret_cast<const uint8_t*>(&field.value);
  const size_t count = packed ? field.bytes.size / sizeof(float) : 1;
  const size_t before = out.size();
  out.resize(before + count);
  memcpy(out.data() + before, data, count * sizeof(float));
}
}  // namespace air_sim::graph_engine
