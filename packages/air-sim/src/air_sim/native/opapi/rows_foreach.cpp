// Lists of tensors at once.  The versions before V2 take their scalar as a tensor on the device.
#include "call.h"

#define UNARY(name, op) "Foreach" #name "(L self, L! out): out = _foreach_" #op "(self)"
#define LISTS(name, op) "Foreach" #name "List(L self, L other, L! out): out = _foreach_" #op ".List(self, other)"
#define SCALARS(name, op)                                                                                                 \
  "Foreach" #name "Scalar(L self, T scalar, L! out): x = _local_scalar_dense(scalar); out = _foreach_" #op ".Scalar(self, x)", \
  "Foreach" #name "ScalarV2(L self, S scalar, L! out): out = _foreach_" #op ".Scalar(self, scalar)",                       \
  "Foreach" #name "ScalarList(L self, R scalars, L! out): out = _foreach_" #op ".ScalarList(self, scalars)"
#define POINTWISE(name, op)                                                                                                \
  "Foreach" #name "Scalar(L self, L first, L second, T scalar, L! out): x = _local_scalar_dense(scalar); out = _foreach_" #op ".Scalar(self, first, second, x)", \
  "Foreach" #name "ScalarV2(L self, L first, L second, S scalar, L! out): out = _foreach_" #op ".Scalar(self, first, second, scalar)", \
  "Foreach" #name "ScalarList(L self, L first, L second, T scalars, L! out): out = _foreach_" #op ".Tensor(self, first, second, scalars)"

namespace air_sim {
AIR_SIM_ROWS(
    foreach_functions,
    UNARY(Abs, abs), UNARY(Acos, acos), UNARY(Asin, asin), UNARY(Atan, atan), UNARY(Cos, cos), UNARY(Cosh, cosh),
    UNARY(Erf, erf), UNARY(Erfc, erfc), UNARY(Exp, exp), UNARY(Expm1, expm1), UNARY(Log, log), UNARY(Log10, log10),
    UNARY(Log1p, log1p), UNARY(Log2, log2), UNARY(Neg, neg), UNARY(Reciprocal, reciprocal), UNARY(Sigmoid, sigmoid),
    UNARY(Sign, sign), UNARY(Sin, sin), UNARY(Sinh, sinh), UNARY(Sqrt, sqrt), UNARY(Tan, tan), UNARY(Tanh, tanh),
    LISTS(Mul, mul), LISTS(Div, div), LISTS(Maximum, maximum), LISTS(Minimum, minimum), LISTS(Pow, pow),
    SCALARS(Add, add), SCALARS(Sub, sub), SCALARS(Mul, mul), SCALARS(Div, div), SCALARS(Maximum, maximum),
    SCALARS(Minimum, minimum), SCALARS(Pow, pow),
    POINTWISE(Addcdiv, addcdiv), POINTWISE(Addcmul, addcmul),
    "ForeachAddList(L self, L other, T alpha, L! out): x = _local_scalar_dense(alpha); out = _foreach_add.List(self, other, x)",
    "ForeachAddListV2(L self, L other, S alpha, L! out): out = _foreach_add.List(self, other, alpha)",
    "ForeachSubList(L self, L other, T alpha, L! out): x = _local_scalar_dense(alpha); out = _foreach_sub.List(self, other, x)",
    "ForeachSubListV2(L self, L other, S alpha, L! out): out = _foreach_sub.List(self, other, alpha)",
    "ForeachPowScalarAndTensor(S self, L exponent, L! out): out = _foreach_pow.ScalarAndTensor(self, exponent)",
    "ForeachLerpList(L self, L end, L weights, L! out): out = _foreach_lerp.List(self, end, weights)",
    "ForeachLerpScalar(L self, L end, S weight, L! out): out = _foreach_lerp.Scalar(self, end, weight)",
    "ForeachNorm(L self, S order, L! out): out = _foreach_norm.Scalar(self, order)",
    "ForeachCopy(L source, L! out): _foreach_copy_(out, source)",
    "ForeachZeroInplace(L! self): _foreach_zero_(self)",
    "ForeachNonFiniteCheckAndUnscale(L! grads, T! found_inf, T inv_scale): "
    "_amp_foreach_non_finite_check_and_unscale_(grads, found_inf, inv_scale)",
    "AmpUpdateScale(T scale, T tracker, T found_inf, d growth, d backoff, i interval, T! new_scale, T! new_tracker): "
    "new_scale, new_tracker = _amp_update_scale(scale, tracker, found_inf, growth, backoff, interval)");
}  // namespace air_sim

#undef UNARY
#undef LISTS
#undef SCALARS
#undef POINTWISE
