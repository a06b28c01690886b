"""Prototypes: elementwise operators over lists of tensors."""

from __future__ import annotations

ROWS = r"""
ForeachAbs(x*) -> y*
ForeachAbsInplace(x*) -> ()
ForeachACos(x*) -> y*
ForeachACosInplace(x*) -> ()
ForeachAddcdivList(x*, x1*, x2*, scalar) -> y*
ForeachAddcdivScalar(x*, x1*, x2*, scalar) -> y*
ForeachAddcdivScalarList(x*, x1*, x2*, scalar) -> y*
ForeachAddcmulList(x*, x1*, x2*, scalar) -> y*
ForeachAddcmulScalar(x1*, x2*, x3*, scalar) -> y*
ForeachAddcmulScalarList(x1*, x2*, x3*, scalar) -> y*
ForeachAddList(x1*, x2*, alpha) -> y*
ForeachAddListInplace(x1*, x2*, alpha) -> ()
ForeachAddScalar(x*, scalar) -> y*
ForeachAddScalarInplace(x*, scalar) -> ()
ForeachAddScalarList(x1*, x2*, alpha) -> y*
ForeachAddScalarListInplace(x*, scalars) -> ()
ForeachASin(x*) -> y*
ForeachASinInplace(x*) -> ()
ForeachATan(x*) -> y*
ForeachATanInplace(x*) -> ()
ForeachCos(x*) -> y*
ForeachCosh(x*) -> y*
ForeachCoshInplace(x*) -> ()
ForeachCosInplace(x*) -> ()
ForeachDivList(x1*, x2*) -> y*
ForeachDivListInplace(x1*, x2*) -> ()
ForeachDivScalar(x*, scalar) -> y*
ForeachDivScalarInplace(x*, scalar) -> ()
ForeachDivScalarList(x1*, x2*, alpha) -> y*
ForeachDivScalarListInplace(x*, scalars) -> ()
ForeachErf(x*) -> y*
ForeachErfc(x*) -> y*
ForeachExp(x*) -> y*
ForeachExpInplace(x*) -> ()
ForeachExpm1(x*) -> y*
ForeachExpm1Inplace(x*) -> ()
ForeachLerpList(x1*, x2*, weight) -> y*
ForeachLerpScalar(x1*, x2*, weight) -> y*
ForeachLog(x*) -> y*
ForeachLog10(x*) -> y*
ForeachLog10Inplace(x*) -> ()
ForeachLog1p(x*) -> y*
ForeachLog1pInplace(x*) -> ()
ForeachLog2(x*) -> y*
ForeachLog2Inplace(x*) -> ()
ForeachLogInplace(x*) -> ()
ForeachMaximumList(x*, scalars) -> y*
ForeachMaximumListInplace(x1*, x2*) -> ()
ForeachMaximumScalar(x*, scalar) -> y*
ForeachMaximumScalarInplace(x*, scalar) -> ()
ForeachMaximumScalarList(x*, scalars) -> y*
ForeachMaximumScalarListInplace(x*, scalars) -> ()
ForeachMinimumList(x*, scalars) -> y*
ForeachMinimumListInplace(x1*, x2*) -> ()
ForeachMinimumScalar(x*, scalar) -> y*
ForeachMinimumScalarInplace(x*, scalar) -> ()
ForeachMinimumScalarList(x*, scalars) -> y*
ForeachMinimumScalarListInplace(x*, scalars) -> ()
ForeachMulList(x1*, x2*) -> y*
ForeachMulListInplace(x1*, x2*) -> ()
ForeachMulScalar(x*, scalar) -> ()
ForeachMulScalarInplace(x*, scalar) -> ()
ForeachMulScalarList(x1*, x2*, alpha) -> y*
ForeachMulScalarListInplace(x*, scalars) -> ()
ForeachNeg(x*) -> y*
ForeachNegInplace(x*) -> ()
ForeachNonFiniteCheckAndUnscale(scaled_grads*, found_inf, inv_scale) -> ()
ForeachNorm(x*, scalar) -> y*
ForeachPowList(x*, scalar) -> y*
ForeachPowListInplace(x1*, x2*) -> ()
ForeachPowScalar(x*, scalar) -> y*
ForeachPowScalarAndTensor(scalar, x*) -> y*
ForeachPowScalarInplace(x*, scalar) -> ()
ForeachPowScalarList(x*, scalar) -> y*
ForeachPowScalarListInplace(x*, scalars) -> ()
ForeachReciprocal(x*) -> y*
ForeachReciprocalInplace(x*) -> ()
ForeachRoundOffNumber(x*) -> y* {roundMode: int}
ForeachSigmoid(x*) -> y*
ForeachSigmoidInplace(x*) -> ()
ForeachSin(x*) -> y*
ForeachSinh(x*) -> y*
ForeachSinhInplace(x*) -> ()
ForeachSinInplace(x*) -> ()
ForeachSqrt(x*) -> y*
ForeachSqrtInplace(x*) -> ()
ForeachSubList(x*, alpha) -> y*
ForeachSubListInplace(x1*, x2*, alpha) -> ()
ForeachSubScalar(x*, scalar) -> y*
ForeachSubScalarInplace(x*, scalar) -> ()
ForeachSubScalarList(x*, scalar) -> y*
ForeachSubScalarListInplace(x*, scalars) -> ()
ForeachTan(x*) -> y*
ForeachTanh(x*) -> y*
ForeachTanhInplace(x*) -> ()
ForeachTanInplace(x*) -> ()
ForeachZeroInplace(x*) -> ()
"""
