// The body of a definition written as text: calls of ATen operators, one after the other.
//
//   Adds(T self, S other, S alpha, T out): out = add.Scalar(self, other, alpha)
//   Mean(T a, I d, b k, D t, T out): out = mean.dim(a, d, k, t)
//   AddRmsNorm(...): x = add.Tensor(x1, x2); ...
//
// A name left of `=` that is a parameter is written by the call; any other name is a temporary.  `_` drops a result.
// Arguments are names, numbers, True, False, None, "text", [lists], dtype(name), shape(name), and positive(name), which is
// None when the number is not positive.  Arguments left out take the defaults of the operator.
#pragma once
#include "call.h"

namespace air_sim {
// Throws std::runtime_error when the text is not a definition or names an unknown operator.
Definition parse_definition(const std::string& text);
Definition parse_signature(const std::string& text);
}  // namespace air_sim
