// Building blocks that several fused operators share: RMS normalisation, rotary positions, rounding to a narrow type.
#pragma once
#include "kernels.h"

namespace air_sim {
struct Normed {
  Tensor out, rstd;  // rstd in float, with ones in place of the normalised dimensions
};
Normed rms_norm(const Tensor& x, const Tensor& gamma, double eps);

enum class Rotary : int64_t { kHalf = 0, kInterleave = 1, kQuarter = 2, kInterleaveHalf = 3 };
// x * cos + turn(x) * sin, in float, back in the type of x.
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, Rotary mode);
Tensor turn(const Tensor& x, Rotary mode);

// Rounds half to even and clamps to the range of the type; float8 types saturate.
Tensor narrow_to(const Tensor& x, at::ScalarType type);
double largest(at::ScalarType type);

// Four bits, eight to a number of 32, the first value in the lowest ones.
Tensor packed(const Tensor& values);
Tensor unpacked(const Tensor& words);
// The same for an output that may hold four bits: it is an eighth as long then.
Tensor narrow_like(const Tensor& x, const Tensor& target);
// An operand of a product: int32 holds four bits. A right one, with `depth` rows, may have been turned after packing.
Tensor operand(const Tensor& x, int64_t depth = -1);

struct Quantised {
  Tensor values, scale, offset;
};
// One scale per row (the last dimension), symmetric: scale = max|x| / largest.
Quantised quantise_rows(const Tensor& x, at::ScalarType type);

// A scale as it is, or out of the packed form of TransQuantParam (the float lies in the low 32 bits).
Tensor plain_scale(const Tensor& scale);
}  // namespace air_sim
