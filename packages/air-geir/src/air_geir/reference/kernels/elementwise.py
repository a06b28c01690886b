"""One element in, one element out: arithmetic, comparison, bits, choice and casts."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from air_fxpasses.npu_cards import packed, unpacked_operand
from air_geir.reference.kernels._registry import Operator, Run, kernel, plain
from air_geir.types import DataType

plain(
    {
        "Abs": torch.abs,
        "Acos": torch.acos,
        "Acosh": torch.acosh,
        "Asin": torch.asin,
        "Asinh": torch.asinh,
        "Atan": torch.atan,
        "Atanh": torch.atanh,
        "Ceil": torch.ceil,
        "Cos": torch.cos,
        "Cosh": torch.cosh,
        "Erf": torch.erf,
        "Erfc": torch.erfc,
        "Erfinv": torch.erfinv,
        "Expm1": torch.expm1,
        "Floor": torch.floor,
        "Invert": torch.bitwise_not,
        "IsFinite": torch.isfinite,
        "IsInf": torch.isinf,
        "IsNan": torch.isnan,
        "Log1p": torch.log1p,
        "LogicalNot": torch.logical_not,
        "Neg": torch.neg,
        "Reciprocal": torch.reciprocal,
        "Inv": torch.reciprocal,
        "Rint": torch.round,
        "Rsqrt": torch.rsqrt,
        "Sigmoid": torch.sigmoid,
        "Sign": torch.sign,
        "Sin": torch.sin,
        "Sinh": torch.sinh,
        "Sqrt": torch.sqrt,
        "Square": torch.square,
        "Tan": torch.tan,
        "Tanh": torch.tanh,
        "Trunc": torch.trunc,
        "Conj": lambda x: torch.conj(x).resolve_conj(),
        "Real": lambda x: torch.real(x).clone(),
        "Imag": lambda x: torch.imag(x).clone(),
        "Angle": torch.angle,
        "ComplexAbs": torch.abs,
        "BesselI0e": torch.special.i0e,
        "Ndtri": torch.special.ndtri,
        "NanToNum": (torch.nan_to_num, "nan posinf neginf"),
        "Muls": (torch.mul, "other=value"),
        "Adds": (torch.add, "other=value"),
        "Cast": (Tensor.to, "dtype=type(dst_type)"),
    }
)
plain(
    {
        "Add": torch.add,
        "AddV2": torch.add,
        "Sub": torch.sub,
        "Mul": torch.mul,
        "RealDiv": torch.true_divide,
        "FloorDiv": torch.floor_divide,
        "TruncateDiv": lambda x1, x2: torch.div(x1, x2, rounding_mode="trunc"),
        "FloorMod": torch.remainder,
        "TruncateMod": torch.fmod,
        "Mod": torch.fmod,
        "Pow": torch.pow,
        "Maximum": torch.maximum,
        "Minimum": torch.minimum,
        "Atan2": torch.atan2,
        "Xlogy": torch.xlogy,
        "NextAfter": torch.nextafter,
        "Zeta": torch.special.zeta,
        "Igamma": torch.special.gammainc,
        "Igammac": torch.special.gammaincc,
        "Gcd": torch.gcd,
        "SquaredDifference": lambda x1, x2: torch.square(torch.sub(x1, x2)),
        "Equal": torch.eq,
        "NotEqual": torch.ne,
        "Less": torch.lt,
        "LessEqual": torch.le,
        "Greater": torch.gt,
        "GreaterEqual": torch.ge,
        "LogicalAnd": torch.logical_and,
        "LogicalOr": torch.logical_or,
        "BitwiseAnd": torch.bitwise_and,
        "BitwiseOr": torch.bitwise_or,
        "BitwiseXor": torch.bitwise_xor,
        "LeftShift": torch.bitwise_left_shift,
        "RightShift": torch.bitwise_right_shift,
        "SelectV2": torch.where,
        "MaskedFill": lambda x, mask, value: torch.where(mask, value, x),
        "ClipByValueV2": torch.clamp,  # the upper bound wins when the bounds cross
        "Complex": torch.complex,
        "Lerp": torch.lerp,
        "Axpy": (torch.add, "alpha"),
        "AxpyV2": lambda x1, x2, alpha: torch.add(x1, x2, alpha=alpha.item()),
        "Addcmul": lambda data, x1, x2, value: torch.addcmul(data, x1, x2, value=value.item()),
        "Addcdiv": lambda data, x1, x2, value: torch.addcdiv(data, x1, x2, value=value.item()),
    }
)


@kernel("Div")
def div(op: Operator) -> Run:
    """Quotient; integers are divided with truncation."""

    def run(x1: Tensor, x2: Tensor) -> Tensor:
        whole = not (x1.is_floating_point() or x1.is_complex())
        return torch.div(x1, x2, rounding_mode="trunc" if whole else None)

    return run


@kernel("Sxpy")
def sxpy(op: Operator) -> Run:
    """x1 - alpha * x2, alpha 1 when it is not fed."""

    def run(x1: Tensor, x2: Tensor, alpha: Tensor | None) -> Tensor:
        return torch.sub(x1, x2) if alpha is None else torch.sub(x1, torch.mul(alpha, x2))

    return run


@kernel("Exp")
def exp(op: Operator) -> Run:
    """base ** (scale * x + shift); base -1 stands for e."""
    base, scale, shift = op.attr("base"), op.attr("scale"), op.attr("shift")
    if (base, scale, shift) == (-1.0, 1.0, 0.0):
        return torch.exp
    if (base, scale, shift) == (2.0, 1.0, 0.0):
        return torch.exp2
    factor = 1.0 if base == -1.0 else math.log(base)
    return lambda x: torch.exp((x * scale + shift) * factor)


@kernel("Log")
def log(op: Operator) -> Run:
    """log_base(scale * x + shift); base -1 stands for e."""
    base, scale, shift = op.attr("base"), op.attr("scale"), op.attr("shift")
    function = {-1.0: torch.log, 2.0: torch.log2, 10.0: torch.log10}.get(base)
    if function is not None and (scale, shift) == (1.0, 0.0):
        return function
    factor = 1.0 if base == -1.0 else 1.0 / math.log(base)
    return lambda x: torch.log(x * scale + shift) * factor


@kernel("Round")
def round_(op: Operator) -> Run:
    """Nearest number with that many decimals, halves to even."""
    decimals = int(op.attrs.get("decimals", 0))
    return lambda x: torch.round(x, decimals=decimals) if decimals else torch.round(x)


@kernel("Bitcast", views=("x",))
def bitcast(op: Operator) -> Run:
    """The same bits in another type; the last axis absorbs a change of width. Four bits are held in eight."""
    dtype = op.dtype("type")

    def run(x: Tensor) -> Tensor:
        if dtype == torch.quint4x2:
            return unpacked_operand(x.unsqueeze(-1))
        if op.input_types[:1] == (DataType.INT4,):
            return packed(x).squeeze(-1)
        if x.element_size() == dtype.itemsize:
            return x.view(dtype)
        if x.element_size() > dtype.itemsize:
            return x.contiguous().unsqueeze(-1).view(dtype)
        return x.contiguous().view(dtype).squeeze(-1)

    return run
