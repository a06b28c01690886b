// The parameters of each operator of libatb, as a caller lays them out in memory. What no kernel here asks for is only
// counted in bytes.
#pragma once
#include "abi.h"

namespace atb::infer {
struct LinearParam {
  bool turn_left, turn_right, has_bias;
  aclDataType type;
  bool accumulates;
  uint8_t rest[23];
};

struct ElewiseParam {
  enum : int { kQuantPerChannel = 17 };
  int kind;
  uint8_t rest[64];
};

struct RmsNormParam {
  enum : int { kNorm = 1, kInt8 = 2 };
  int kind;
  int quant alignas(8);
  float epsilon;
  uint8_t rest[160];
};

struct GroupTopkParam {
  int32_t groups, k;
  uint16_t sums;  // 1: a group counts by the sum of its n largest, otherwise by its largest
  uint16_t n;
  uint8_t rest[12];
};

struct RopeParam {
  int32_t coefficient, cosine_format;
  uint8_t rest[8];
};

struct ReshapeAndCacheParam {
  enum : int { kKeysAlone = 1 };
  int compression, caches;
  uint8_t rest[16];
};

struct PagedAttentionParam {
  enum : int { kNoMask, kNorm, kAlibi, kSpec, kMaskFree, kNormCompress };
  int32_t heads;
  float scale;
  int32_t key_heads;
  int mask;
  bool batch_status;
  int quant;
  aclDataType type;
  bool quant_offset;
  int compression;
  int several;  // 1: more than one query for each sequence
  int scaling, layout;
  uint32_t value_size;  // not 0: the values are so much of the keys
  uint8_t rest[68];
};

struct SelfAttentionParam {
  enum : int { kEncoder = 1, kDecoder, kPacked, kPrefix };
  enum : int { kNoMask, kNorm, kAlibi, kNormCompress };
  int quant;
  aclDataType type;
  int32_t heads, key_heads;
  float query_scale, scale;
  bool batch_status;
  uint32_t triangular;
  int calculation, kernel, clamp;
  float least, most;
  int mask, caches, scaling, layout;
  uint32_t value_size;
  int8_t cache;
  uint32_t window;
  uint8_t rest[64];
};
}  // namespace atb::infer
