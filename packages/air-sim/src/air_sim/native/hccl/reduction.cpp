// Element-wise reductions.  Half precision types add in their own precision after every rank, as the device does.
#include "reduction.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <stdexcept>

#include "third_party/hccl/inc/hccl/hccl_types.h"

namespace air_sim {
namespace {
template <class T>
void apply(T* into, const T* from, uint64_t count, Reduction op) {
  switch (op) {
    case Reduction::sum:
      for (uint64_t i = 0; i < count; ++i) into[i] = static_cast<T>(into[i] + from[i]);
      break;
    case Reduction::product:
      for (uint64_t i = 0; i < count; ++i) into[i] = static_cast<T>(into[i] * from[i]);
      break;
    case Reduction::maximum:
      for (uint64_t i = 0; i < count; ++i) into[i] = from[i] > into[i] ? from[i] : into[i];
      break;
    case Reduction::minimum:
      for (uint64_t i = 0; i < count; ++i) into[i] = from[i] < into[i] ? from[i] : into[i];
      break;
  }
}
// Calls `use` with a null pointer of the type's C++ type.
template <class Use>
void with_type(int type, Use use) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8: return use(static_cast<int8_t*>(nullptr));
    case HCCL_DATA_TYPE_UINT8: return use(static_cast<uint8_t*>(nullptr));
    case HCCL_DATA_TYPE_INT16: return use(static_cast<int16_t*>(nullptr));
    case HCCL_DATA_TYPE_UINT16: return use(static_cast<uint16_t*>(nullptr));
    case HCCL_DATA_TYPE_INT32: return use(static_cast<int32_t*>(nullptr));
    case HCCL_DATA_TYPE_UINT32: return use(static_cast<uint32_t*>(nullptr));
    case HCCL_DATA_TYPE_INT64: return use(static_cast<int64_t*>(nullptr));
    case HCCL_DATA_TYPE_UINT64: return use(static_cast<uint64_t*>(nullptr));
    case HCCL_DATA_TYPE_FP16: return use(static_cast<c10::Half*>(nullptr));
    case HCCL_DATA_TYPE_BFP16: return use(static_cast<c10::BFloat16*>(nullptr));
    case HCCL_DATA_TYPE_FP32: return use(static_cast<float*>(nullptr));
    case HCCL_DATA_TYPE_FP64: return use(static_cast<double*>(nullptr));
    default: throw std::runtime_error("collectives do not reduce data type " + std::to_string(type));
  }
}
}  // namespace

uint64_t element_bytes(int type) {
  if (type >= HCCL_DATA_TYPE_HIF8 && type <= HCCL_DATA_TYPE_FP8E8M0) return 1;
  uint64_t bytes = 0;
  with_type(type, [&](auto* element) { bytes = sizeof *element; });
  return bytes;
}
void reduce_into(void* into, const void* from, uint64_t count, int type, Reduction op) {
  with_type(type, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    apply(static_cast<T*>(into), static_cast<const T*>(from), count, op);
  });
}
}  // namespace air_sim
