"""RMS normalisation: alone, after an addition, and followed by a cast or a quantisation.

The sum is rounded to the type of `x1` before it is normalised; everything after that is computed in 32 bits
and rounded once. `beta`, where it is given, is added after `gamma`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._ir import Ir, TypeOfResult
from air_fxpasses.npu_cards._normalise import normalised
from air_fxpasses.npu_cards._quantise import by_largest, rounded
from air_fxpasses.npu_cards._sample import F32, Draw, Sample
from air_fxpasses.npu_cards._types import Code, type_of, wide
from air_fxpasses.npu_cards.errors import NotCovered
from air_fxpasses.padding._by_rows import by_rows

EPSILON: Final = 1e-6


def rms_norm(input: Tensor, gamma: Tensor, epsilon: float = EPSILON) -> tuple[Tensor, Tensor]:
    """The normalised input and the inverse root."""
    y, rstd = normalised(input, gamma, epsilon)
    return y.to(input.dtype), rstd


def add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = EPSILON
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised sum, the inverse root and the sum."""
    x = x1 + x2
    y, rstd = normalised(x, gamma, epsilon)
    return y.to(x.dtype), rstd, x


def add_rms_norm_v2(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Leaves the normalised sum in `x1`, the sum in `x2`, and returns the inverse root."""
    y, rstd, x = add_rms_norm(x1, x2, gamma, epsilon)
    x1.copy_(y)
    x2.copy_(x)
    return rstd


def add_rms_norm_v2_functional(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = EPSILON
) -> tuple[Tensor, Tensor, Tensor]:
    """The inverse root, the normalised sum and the sum."""
    y, rstd, x = add_rms_norm(x1, x2, gamma, epsilon)
    return rstd, y, x


def add_rms_norm_cast(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = EPSILON
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The normalised sum in 32 bits and in the type of `x1`, the inverse root, the sum."""
    y, rstd, x = add_rms_norm(x1, x2, gamma, epsilon)
    return y.to(torch.float32), y, rstd, x


# -- followed by a quantisation


def _summed(
    x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor]:
    x = x1 + x2
    y, _ = normalised(x, gamma, epsilon)
    return (y if beta is None else y + wide(beta)), x


def add_rms_norm_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    zero_points1: Tensor | None = None,
    beta: Tensor | None = None,
    scales2: Tensor | None = None,
    zero_points2: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = EPSILON,
    div_mode: bool = True,
    dst_type: Code = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised sum quantised with the first and the second scale, and the sum.

    Without a second scale the device leaves the second result as it found it; here it is zeros.
    """
    if axis != -1:
        raise NotCovered("npu_add_rms_norm_quant", f"axis {axis}; it has to be -1")
    dtype = type_of(dst_type, torch.int8, "npu_add_rms_norm_quant")
    y, x = _summed(x1, x2, gamma, beta, epsilon)

    def one(scales: Tensor, zero_points: Tensor | None) -> Tensor:
        scaled = y / wide(scales) if div_mode else y * wide(scales)
        return rounded(scaled if zero_points is None else scaled + wide(zero_points), dtype)

    first = one(scales1, zero_points1)
    return first, torch.zeros_like(first) if scales2 is None else one(scales2, zero_points2), x


def _wanted(
    smooth1: Tensor | None, smooth2: Tensor | None, output_mask: Sequence[bool] | None
) -> tuple[bool, bool]:
    """Which of the two quantised results there are."""
    if not output_mask:
        return True, smooth1 is not None and smooth2 is not None
    first, second = output_mask
    torch._check(first or second, lambda: "output_mask of npu_add_rms_norm_dynamic_quant wants no result")
    return first, second


def add_rms_norm_dynamic_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    *,
    smooth_scale1: Tensor | None = None,
    smooth_scale2: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = EPSILON,
    output_mask: Sequence[bool] | None = None,
    y_dtype: Code = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Two quantisations of the normalised sum, the sum, and the scale of each row for both.

    A result that is not wanted has no elements.
    """
    dtype = type_of(y_dtype, torch.int8, "npu_add_rms_norm_dynamic_quant")
    y, x = _summed(x1, x2, gamma, beta, epsilon)
    wanted = _wanted(smooth_scale1, smooth_scale2, output_mask)
    found = []
    for is_wanted, smooth in zip(wanted, (smooth_scale1, smooth_scale2), strict=True):
        if not is_wanted:
            found.append(_nothing(x1, dtype))
            continue
        values, scale = by_largest(y if smooth is None else y * wide(smooth), dtype)
        found.append((values, scale.squeeze(-1)))
    (y1, scale1), (y2, scale2) = found
    return y1, y2, x, scale1, scale2


def _nothing(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    stored = torch.int32 if dtype == torch.quint4x2 else dtype
    return x.new_empty((0,), dtype=stored), x.new_empty((0,), dtype=torch.float32)


def group_norm_silu(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, group: int, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Silu of the normalised groups of channels, the mean of each group and its inverse standard deviation."""
    scale, shift = (None if x is None else wide(x) for x in (weight, bias))
    y = torch.nn.functional.group_norm(wide(input), group, scale, shift, eps)
    grouped = wide(input).reshape(input.shape[0], group, -1)
    rstd = (grouped.var(-1, correction=0) + eps).rsqrt()
    like = input if weight is None or bias is None else weight
    return torch.nn.functional.silu(y).to(input.dtype), grouped.mean(-1).to(like.dtype), rstd.to(like.dtype)


def _in_groups(draw: Draw) -> list[Sample]:
    x = draw.real(2, 4, 6)
    return [Sample((x, draw.positive(4), draw.real(4), 2)), Sample((x, None, None, 2), label="plain")]


def _added(draw: Draw) -> list[Sample]:
    return [Sample((draw.real(4, 3, 64), draw.real(4, 3, 64), draw.positive(64)), {"epsilon": 1e-5})]


def _rows(draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    return draw.real(4, 64), draw.real(4, 64), draw.positive(64)


def _by_scale(draw: Draw) -> list[Sample]:
    args = (*_rows(draw), draw.positive(64, dtype=F32), None)
    return [
        Sample(args, unspecified=(1,)),
        Sample(args, {"div_mode": False}, "multiplied", (1,)),
    ]


def _by_row(draw: Draw) -> list[Sample]:
    rows, smooth = _rows(draw), {"smooth_scale1": draw.positive(64)}
    return [
        Sample(rows, smooth, "one", (1, 4)),
        Sample(rows, {**smooth, "smooth_scale2": draw.positive(64)}, "two"),
    ]


OPS: Final = (
    NpuOp(
        "npu_rms_norm",
        rms_norm,
        lambda draw: [
            Sample((draw.real(4, 3, 64), draw.positive(64))),
            Sample((draw.real(4, 3, 64), draw.positive(3, 64), 1e-3), label="two-axes"),
        ],
        padding=by_rows("input", mixed="gamma"),
        ir=Ir("RmsNorm", {"x": "input"}),
    ),
    NpuOp(
        "npu_add_rms_norm",
        add_rms_norm,
        _added,
        padding=by_rows("x1", "x2", mixed="gamma"),
        ir=Ir("AddRmsNorm"),
    ),
    NpuOp(
        "npu_add_rms_norm_v2",
        add_rms_norm_v2,
        _added,
        functional="npu_add_rms_norm_v2_functional",
        ir=Ir("AddRmsNorm", gives=("rstd",), writes={"x1": "y", "x2": "x"}),
    ),
    NpuOp(
        "npu_add_rms_norm_v2_functional",
        add_rms_norm_v2_functional,
        _added,
        ir=Ir("AddRmsNorm", gives=("rstd", "y", "x")),
    ),
    NpuOp(
        "npu_add_rms_norm_cast",
        add_rms_norm_cast,
        _added,
        padding=by_rows("x1", "x2", mixed="gamma"),
        ir=Ir("AddRmsNormCast"),
    ),
    NpuOp(
        "npu_add_rms_norm_quant",
        add_rms_norm_quant,
        _by_scale,
        ir=Ir(
            "AddRmsNormQuant",
            {"dst_type": TypeOfResult("dst_type")},
            needs={"y2": "scales2"},
            only={"axis": -1},
            held=dict.fromkeys(("y1", "y2"), "dst_type"),
        ),
    ),
    NpuOp(
        "npu_add_rms_norm_dynamic_quant",
        add_rms_norm_dynamic_quant,
        _by_row,
        ir=Ir(
            "AddRmsNormDynamicQuant",
            {"dst_type": TypeOfResult("y_dtype")},
            held=dict.fromkeys(("y1", "y2"), "y_dtype"),
        ),
    ),
    NpuOp(
        "npu_group_norm_silu",
        group_norm_silu,
        _in_groups,
        ir=Ir(
            "GroupNormSilu",
            {"x": "input", "gamma": "weight", "beta": "bias", "num_groups": "group"},
            typed_as=dict.fromkeys(("mean", "variance"), "input"),
        ),
    ),
)
