// Creation, inspection and destruction of the aclnn argument objects.
#include "objects.h"
#include <air_sim/runtime.h>
#include <algorithm>

namespace air_sim {
void retain(const Object* object) {
  if (object) const_cast<Object*>(object)->references.fetch_add(1, std::memory_order_relaxed);
}

template <class T>
static void destroy(const Object* object) {
  auto* exact = static_cast<T*>(const_cast<Object*>(object));
  exact->type_mark = Object::kDead;
  delete exact;
}

template <class T>
static void destroy_list(const Object* object) {
  for (auto* item : static_cast<const T*>(object)->values) release(item);
  destroy<T>(object);
}

void release(const Object* object) {
  if (!object || const_cast<Object*>(object)->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  switch (object->type_mark) {
    case Object::kTensor: return destroy<aclTensor>(object);
    case Object::kScalar: return destroy<aclScalar>(object);
    case Object::kIntArray: return destroy<aclIntArray>(object);
    case Object::kFloatArray: return destroy<aclFloatArray>(object);
    case Object::kBoolArray: return destroy<aclBoolArray>(object);
    case Object::kTensorList: return destroy_list<aclTensorList>(object);
    case Object::kScalarList: return destroy_list<aclScalarList>(object);
    case Object::kDead: return;
  }
}

template <class T>
static aclScalar* scalar(const void* value, aclDataType type) {
  return new aclScalar(c10::Scalar(*static_cast<const T*>(value)), type);
}
}  // namespace air_sim
using namespace air_sim;

AIR_SIM_API aclTensor* aclCreateTensor(const int64_t* sizes, uint64_t rank, aclDataType type, const int64_t* strides,
                                       int64_t offset, aclFormat format, const int64_t* storage, uint64_t storage_rank,
                                       void* data) {
  AIR_SIM_ENTRY;
  auto* t = new aclTensor();
  t->sizes.assign(sizes, sizes + rank);
  if (strides) {
    t->strides.assign(strides, strides + rank);
  } else {
    t->strides.assign(rank, 1);
    for (int64_t i = static_cast<int64_t>(rank) - 2; i >= 0; --i) t->strides[i] = t->strides[i + 1] * t->sizes[i + 1];
  }
  if (storage) t->storage.assign(storage, storage + storage_rank);
  t->offset = offset;
  t->type = type;
  t->format = format;
  t->data = data;
  return t;
}

AIR_SIM_API aclScalar* aclCreateScalar(void* value, aclDataType type) {
  AIR_SIM_ENTRY;
  switch (type) {
    case ACL_FLOAT: return scalar<float>(value, type);
    case ACL_DOUBLE: return scalar<double>(value, type);
    case ACL_FLOAT16: return scalar<c10::Half>(value, type);
    case ACL_BF16: return scalar<c10::BFloat16>(value, type);
    case ACL_INT8: return scalar<int8_t>(value, type);
    case ACL_INT16: return scalar<int16_t>(value, type);
    case ACL_INT32: return scalar<int32_t>(value, type);
    case ACL_INT64: return scalar<int64_t>(value, type);
    case ACL_UINT8: return scalar<uint8_t>(value, type);
    case ACL_BOOL: return scalar<bool>(value, type);
    case ACL_COMPLEX64: return scalar<c10::complex<float>>(value, type);
    case ACL_COMPLEX128: return scalar<c10::complex<double>>(value, type);
    default: set_error("aclCreateScalar: data type %d is not supported by air-sim", static_cast<int>(type)); return nullptr;
  }
}

AIR_SIM_API aclIntArray* aclCreateIntArray(const int64_t* p, uint64_t n) { AIR_SIM_ENTRY; return new aclIntArray(p, n); }
AIR_SIM_API aclFloatArray* aclCreateFloatArray(const float* p, uint64_t n) { AIR_SIM_ENTRY; return new aclFloatArray(p, n); }
AIR_SIM_API aclBoolArray* aclCreateBoolArray(const bool* p, uint64_t n) { AIR_SIM_ENTRY; return new aclBoolArray(p, n); }
AIR_SIM_API aclTensorList* aclCreateTensorList(const aclTensor* const* p, uint64_t n) { AIR_SIM_ENTRY; return new aclTensorList(p, n); }
AIR_SIM_API aclScalarList* aclCreateScalarList(const aclScalar* const* p, uint64_t n) { AIR_SIM_ENTRY; return new aclScalarList(p, n); }

AIR_SIM_API int aclDestroyTensor(const aclTensor* p) { AIR_SIM_ENTRY; release(p); return 0; }
AIR_SIM_API int aclDestroyScalar(const aclScalar* p) { AIR_SIM_ENTRY; release(p); return 0; }
AIR_SIM_API int aclDestroyIntArray(const aclIntArray* p) { AIR_SIM_ENTRY; release(p); return 0; }
AIR_SIM_API int aclDestroyFloatArray(const aclFloatArray* p) { AIR_SIM_ENTRY; release(p); return 0; }
AIR_SIM_API int aclDestroyBoolArray(const aclBoolArray* p) { AIR_SIM_ENTRY; release(p); return 0; }
AIR_SIM_API int aclDestroyTensorList(const aclTensorList* p) { AIR_SIM_ENTRY; release(p); return 0; }
AIR_SIM_API int aclDestroyScalarList(const aclScalarList* p) { AIR_SIM_ENTRY; release(p); return 0; }

// The caller frees the array with delete[].
AIR_SIM_API int aclGetViewShape(const aclTensor* t, int64_t** sizes, uint64_t* rank) {
  AIR_SIM_ENTRY;
  *rank = t->sizes.size();
  *sizes = new int64_t[t->sizes.empty() ? 1 : t->sizes.size()];
  std::copy(t->sizes.begin(), t->sizes.end(), *sizes);
  return 0;
}
