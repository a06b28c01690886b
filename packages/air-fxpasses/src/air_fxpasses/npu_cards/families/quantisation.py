"""Quantisation with given scales, and with scales found in the values.

A row of zeros gets scale 0 and stays zeros.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._quantise import by_largest, rounded
from air_fxpasses.npu_cards._sample import F32, Draw, Sample
from air_fxpasses.npu_cards._types import Code, type_of, wide
from air_fxpasses.npu_cards.errors import NotCovered
from air_fxpasses.padding._by_rows import by_rows
from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Labels, Unproven


def _along(scale: Tensor, x: Tensor, axis: int) -> Tensor:
    """A one-dimensional scale laid along `axis` of `x`."""
    if scale.dim() != 1 or scale.shape[0] == 1:
        return wide(scale)
    shape = [1] * x.dim()
    shape[axis] = -1
    return wide(scale).reshape(shape)


def quantize(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    dtype: Code,
    axis: int = 1,
    div_mode: bool = True,
) -> Tensor:
    """`input / scales + zero_points`, or times `scales` without `div_mode`, rounded to `dtype`.

    Without `div_mode`, `axis=-2` is the last axis but one and any other `axis` is the last.
    """
    where = axis if div_mode or axis == -2 else -1
    scale = _along(scales, input, where)
    scaled = wide(input) / scale if div_mode else wide(input) * scale
    if zero_points is not None:
        scaled = scaled + _along(zero_points, input, where)
    return rounded(scaled, type_of(dtype, torch.int8, "npu_quantize")).contiguous()


def _smoothed(input: Tensor, smooth: Tensor | None, group_index: Tensor | None) -> Tensor:
    """`input` times the smooth scales; with groups, those of the group each row belongs to."""
    values = wide(input)
    if smooth is None:
        return values
    if group_index is None:
        return values * wide(smooth)
    rows = values.reshape(-1, values.shape[-1])
    order = torch.arange(rows.shape[0], device=rows.device)
    group = torch.searchsorted(group_index.to(torch.int64), order, right=True)
    last = smooth.shape[0] - 1
    return (rows * wide(smooth)[group.clamp(max=last)]).reshape(values.shape)


_REDUCED: Final = {"pertoken": (-1,), "perchannel": (-2,)}


def dynamic_quant(
    input: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    dst_type: Code = None,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Values divided by the scale of their row (or column, or all), and the scales."""
    if dst_type_max:
        raise NotCovered("npu_dynamic_quant", "a dst_type_max of one's own")
    if quant_mode != "pertensor" and quant_mode not in _REDUCED:
        raise NotCovered("npu_dynamic_quant", f"quant_mode '{quant_mode}'")
    dtype = type_of(dst_type, torch.int8, "npu_dynamic_quant")
    if quant_mode == "perchannel" and smooth_scales is not None:
        smooth_scales = smooth_scales.unsqueeze(-1)  # one for each row
    x = _smoothed(input, smooth_scales, group_index)
    if quant_mode == "pertensor":
        values, scale = by_largest(x, dtype, tuple(range(x.dim())))
        return values, scale.reshape(1)
    dims = _REDUCED[quant_mode]
    values, scale = by_largest(x, dtype, dims)
    return values.contiguous(), scale.squeeze(dims[0])


def _each_row(call: Call) -> tuple[Labels, ...]:
    """A scale for each row, where neither the whole tensor nor a group of rows shares one."""
    if call["quant_mode"] != "pertoken" or call["group_index"] is not None:
        raise Unproven("rows share a scale")
    return by_rows("input", mixed=1)(call)


def _by_scale(draw: Draw) -> list[Sample]:
    x, scale = draw.real(4, 64), draw.positive(64, dtype=F32)
    zero = torch.arange(64, dtype=torch.int32)
    return [
        Sample((x, scale, None, torch.qint8, -1, True)),
        Sample((x, scale, zero, torch.quint8, 1, True), label="zero-points"),
        Sample((x, draw.positive(64), None, torch.qint8, -1, False), label="multiplied"),
        Sample((x, draw.positive(64), None, torch.quint4x2, -1, False), label="four_bits"),
    ]


def _by_row(draw: Draw) -> list[Sample]:
    x = draw.real(4, 64)
    groups = {"smooth_scales": draw.positive(2, 64), "group_index": torch.tensor([1, 4], dtype=torch.int32)}
    return [
        Sample((x,)),
        Sample((x,), {"smooth_scales": draw.positive(64)}, "smooth"),
        Sample((x,), groups, "groups"),
        Sample((x,), {"quant_mode": "pertensor"}, "pertensor"),
        Sample((x,), {"quant_mode": "pertensor", "smooth_scales": draw.positive(64)}, "pertensor_smooth"),
        Sample((x,), {"quant_mode": "perchannel", "smooth_scales": draw.positive(4)}, "perchannel"),
        Sample((x,), {"dst_type": torch.quint4x2}, "four_bits"),
        Sample((x,), {"dst_type": torch.quint4x2, "quant_mode": "pertensor"}, "four_bits_pertensor"),
    ]


OPS: Final = (
    NpuOp("npu_quantize", quantize, _by_scale),
    NpuOp("npu_dynamic_quant", dynamic_quant, _by_row, padding=_each_row),
)
