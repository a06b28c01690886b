"""Quantisation: with scales that are given and with scales found in the values, products and caches of 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel

_RANGE = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int32: (-(2**31), 2**31 - 1)}


def _narrow(x: Tensor, dtype: torch.dtype) -> Tensor:
    """To the nearest, ties to even; what is out of range becomes the nearest number in range."""
    if dtype not in _RANGE:
        return x.to(dtype)
    return torch.round(x.double()).clamp(*_RANGE[dtype]).to(dtype)


def _by_rows(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Each row over its largest magnitude by 127, and that scale; a row of zeros keeps scale 0."""
    scale = x.abs().amax(-1, keepdim=True) / float(_RANGE[dtype][1])
    return _narrow(torch.where(scale > 0, x / scale, torch.zeros_like(x)), dtype), scale.squeeze(-1)


def _int8_only(op: Operator, name: str) -> torch.dtype:
    dtype = op.dtype(name)
    if dtype != torch.int8:
        raise op.refuse(f"type {dtype} is not supported")
    return dtype


def _along(values: Tensor, rank: int, axis: int) -> Tensor:
    """A vector laid along an axis of something of that rank."""
    if values.dim() != 1 or values.numel() == 1:
        return values.float()
    shape = [1] * rank
    shape[axis] = -1
    return values.float().reshape(shape)


@kernel("DynamicQuant")
def dynamic_quant(op: Operator) -> Run:
    """Each row divided by its largest magnitude over 127 and rounded; also that scale."""
    dtype = _int8_only(op, "dst_type")

    def run(x: Tensor, smooth_scales: Tensor | None, group_index: Tensor | None) -> tuple[Tensor, Tensor]:
        return _by_rows(_smoothed(x, smooth_scales, group_index), dtype)

    return run


def _smoothed(x: Tensor, scales: Tensor | None, group_index: Tensor | None) -> Tensor:
    """Times the smooth scales: one vector, or that of the group a row belongs to (`group_index` holds ends)."""
    if scales is None:
        return x.float()
    if group_index is None:
        return x.float() * scales.float()
    rows = x.float().flatten(0, -2).clone()
    start = 0
    for group, end in enumerate(group_index.tolist()):
        rows[start:end] *= scales[group].float()
        start = end
    return rows.reshape(x.shape)


@kernel("AscendQuantV2")
def ascend_quant(op: Operator) -> Run:
    """Times a scale, plus an offset, rounded; along the last axis or the one before it."""
    dtype, axis = op.dtype("dst_type"), -2 if int(op.attr("axis")) == -2 else -1
    if op.attr("sqrt_mode"):
        raise op.refuse("sqrt_mode is not supported")

    def run(x: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
        y = x.float() * _along(scale, x.dim(), axis)
        return _narrow(y if offset is None else y + _along(offset, x.dim(), axis), dtype)

    return run


@kernel("Quantize")
def quantize(op: Operator) -> Run:
    """Over a scale, plus a zero point, rounded."""
    name = op.attr("dtype")
    names = {"torch.qint8": torch.int8, "torch.quint8": torch.uint8, "torch.qint32": torch.int32}
    dtype = names.get(name.decode() if isinstance(name, bytes) else name)
    axis = int(op.attr("axis"))
    if dtype is None:
        raise op.refuse(f"dtype {name!r} is not supported")

    def run(x: Tensor, scales: Tensor, zero_points: Tensor | None) -> Tensor:
        y = x.float() / _along(scales, x.dim(), axis)
        return _narrow(y if zero_points is None else y + _along(zero_points, x.dim(), axis), dtype)

    return run


@kernel("AddRmsNormQuant")
def add_rms_norm_quant(op: Operator) -> Run:
    """RmsNorm of a sum, quantised with one or two scales; also the sum."""
    epsilon, divides, dtype = op.attr("epsilon"), bool(op.attr("div_mode")), op.dtype("dst_type")

    def run(
        x1: Tensor, x2: Tensor, gamma: Tensor, scales1: Tensor, scales2: Tensor | None, zeros1: Tensor | None,
        zeros2: Tensor | None, beta: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        x = x1 + x2
        y = _normalised(x, gamma, beta, epsilon)

        def one(scales: Tensor, zeros: Tensor | None) -> Tensor:
            scaled = y / scales.float() if divides else y * scales.float()
            return _narrow(scaled if zeros is None else scaled + zeros.float(), dtype)

        first = one(scales1, zeros1)
        return first, torch.zeros_like(first) if scales2 is None else one(scales2, zeros2), x

    return run


def _normalised(x: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float) -> Tensor:
    axes = tuple(range(x.dim() - gamma.dim(), x.dim()))
    y = x.float() * torch.rsqrt(x.float().pow(2).mean(axes, keepdim=True) + epsilon) * gamma.float()
    return y if beta is None else y + beta.float()


@kernel("AddRmsNormDynamicQuant")
def add_rms_norm_dynamic_quant(op: Operator) -> Run:
    """RmsNorm of a sum, each row quantised by its own scale, once per smooth scale; unwanted results are empty."""
    epsilon, dtype, mask = op.attr("epsilon"), _int8_only(op, "dst_type"), list(op.attr("output_mask"))

    def run(
        x1: Tensor,
        x2: Tensor,
        gamma: Tensor,
        smooth1: Tensor | None,
        smooth2: Tensor | None,
        beta: Tensor | None,
    ) -> tuple[Tensor, ...]:
        x = x1 + x2
        y = _normalised(x, gamma, beta, epsilon)
        wanted = mask or [True, smooth1 is not None and smooth2 is not None]
        made = [
            _by_rows(y if smooth is None else y * smooth.float(), dtype)
            if yes
            else (torch.empty(0, dtype=dtype), torch.empty(0))
            for yes, smooth in zip(wanted, (smooth1, smooth2), strict=True)
        ]
        return made[0][0], made[1][0], x, made[0][1], made[1][1]

    return run


@kernel("TransQuantParamV2")
def trans_quant_param(op: Operator) -> Run:
    """A scale (19 bits of a float) and an offset (9 bits) in one number of 64."""
    if int(op.attr("round_mode")):
        raise op.refuse(f"round_mode {op.attr('round_mode')} is not supported")

    def run(scale: Tensor, offset: Tensor | None) -> Tensor:
        words = scale.float().contiguous().view(torch.int32).long()
        packed = (words & 0xFFFFFFFF) >> 13 << 13 | 1 << 46
        if offset is None:
            return packed
        return packed | (torch.round(offset.float()).clamp(-256, 255).long() & 511) << 37

    return run


def scale_of(scale: Tensor) -> Tensor:
    """A scale as float32, also one that TransQuantParamV2 packed."""
    if scale.dtype not in (torch.int64, torch.uint64):
        return scale.float()
    halves = scale.view(torch.int64).contiguous().view(torch.int32)
    return halves[..., ::2].contiguous().view(torch.float32)


@kernel("QuantBatchMatmulV3")
def quant_matmul(op: Operator) -> Run:
    """int8 product accumulated exactly, scaled per channel (and per token) to the output type."""
    first, second = bool(op.attr("transpose_x1")), bool(op.attr("transpose_x2"))
    dtype = op.dtype("dtype")

    def run(
        x1: Tensor, x2: Tensor, scale: Tensor, offset: Tensor | None, bias: Tensor | None, pertoken: Tensor | None
    ) -> Tensor:  # fmt: skip
        a, b = (x1.transpose(-1, -2) if first else x1), (x2.transpose(-1, -2) if second else x2)
        total = torch.matmul(a.to(torch.int32), b.to(torch.int32))
        if bias is not None and bias.dtype == torch.int32:
            total = total + bias
        result = total.float() * scale_of(scale)
        if pertoken is not None:
            result = result * pertoken.float().unsqueeze(-1)
        if bias is not None and bias.dtype != torch.int32:
            result = result + bias.float()
        return _narrow(result if offset is None else result + offset.float(), dtype)

    return run


@kernel("WeightQuantBatchMatmulV2")
def weight_quant_matmul(op: Operator) -> Run:
    """x times a weight of 8 bits, shifted and scaled first: per column, for all, or per group of rows."""
    turn_x, turn_weight = bool(op.attr("transpose_x")), bool(op.attr("transpose_weight"))
    group = int(op.attr("antiquant_group_size"))

    def spread(values: Tensor, rows: int) -> Tensor:
        if group <= 0 or values.dim() < 2 or values.shape[0] == 1:
            return values.float()
        return values.float()[torch.arange(rows) // group]

    def run(
        x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None, quant_scale: Tensor | None,
        quant_offset: Tensor | None, bias: Tensor | None,
    ) -> Tensor:  # fmt: skip
        a, b = (x.transpose(-1, -2) if turn_x else x), (weight.transpose(-1, -2) if turn_weight else weight)
        plain = b.float() if offset is None else b.float() + spread(offset, b.shape[-2])
        result = torch.matmul(a.float(), plain * spread(scale, b.shape[-2]))
        if bias is not None:
            result = result + bias.float()
        if quant_scale is None:
            return result.to(x.dtype)
        result = result * scale_of(quant_scale)
        return _narrow(result if quant_offset is None else result + quant_offset.float(), torch.int8)

    return run


@kernel("QuantUpdateScatter", writes={"var": 0})
def quant_update_scatter(op: Operator) -> Run:
    """Rows quantised, then written where the indices say, in place."""
    axis, quant_axis = int(op.attr("axis")), int(op.attr("quant_axis"))

    def run(
        var: Tensor, indices: Tensor, updates: Tensor, scales: Tensor, zero_points: Tensor | None
    ) -> Tensor:
        y = updates.float() / _along(scales, updates.dim(), quant_axis)
        if zero_points is not None:
            y = y + _along(zero_points, updates.dim(), quant_axis)
        places = indices.tolist() if indices.dim() == 2 else list(enumerate(indices.tolist()))
        for (batch, start), rows in zip(places, _narrow(y, var.dtype), strict=True):
            var[batch].narrow(axis % var.dim() - 1, start, rows.shape[axis % var.dim() - 1]).copy_(rows)
        return var

    return run


@kernel("GroupedMatmul")
def grouped_matmul(op: Operator) -> Run:
    """One product per expert, of consecutive rows with the expert's weight, or of each x with its weight."""
    kind, listed, split = (int(op.attr(n)) for n in ("group_type", "group_list_type", "split_item"))
    turned, dtypes = bool(op.attr("transpose_weight")), op.output_dtypes
    activation = _ACTIVATIONS.get(int(op.attr("act_type")))
    by_columns = kind == 2 and bool(op.attr("transpose_x"))
    if (kind not in (-1, 0) and not by_columns) or listed not in (0, 1) or activation is None:
        raise op.refuse(
            f"group_type {kind}, group_list_type {listed} or act_type {op.attr('act_type')} is not supported"
        )

    def run(
        x: Sequence[Tensor], weight: Sequence[Tensor], bias: Sequence[Tensor], scale: Sequence[Tensor],
        offset: Sequence[Tensor], anti_scale: Sequence[Tensor], anti_offset: Sequence[Tensor],
        group_list: Tensor | None, per_token: Tensor | None,
    ) -> list[Tensor]:  # fmt: skip
        if offset:
            raise op.refuse("an offset is not supported")
        if by_columns and group_list is not None:
            pairs = zip(*(_rows(t, group_list, listed) for t in (x[0], weight[0])), strict=True)
            return [
                torch.stack([_narrow(_product(a.t(), b, [None] * 4, None), x[0].dtype) for a, b in pairs])
            ]
        rows = list(x) if group_list is None else _rows(x[0], group_list, listed)
        shares = (
            per_token if group_list is None or per_token is None else _rows(per_token, group_list, listed)
        )
        made = []
        for group, part in enumerate(rows):
            w = _of(weight, group)
            w = w.transpose(-1, -2) if turned else w
            parts = [_of(t, group) if t else None for t in (bias, scale, anti_scale, anti_offset)]
            made.append(activation(_product(part, w, parts, None if shares is None else shares[group])))
        if split in (2, 3):
            whole = torch.cat(made)
            made = [torch.nn.functional.pad(whole, (0, 0, 0, sum(t.shape[0] for t in x) - whole.shape[0]))]
        return [_narrow(t, dtypes[i] or x[0].dtype) for i, t in enumerate(made)]

    return run


_ACTIVATIONS: dict[int, Callable[[Tensor], Tensor]] = {
    0: lambda y: y,
    1: torch.relu,
    2: lambda y: torch.nn.functional.gelu(y, approximate="tanh"),
    4: lambda y: y * torch.sigmoid(y * 1.702),
    5: torch.nn.functional.silu,
}


def _of(tensors: Sequence[Tensor], group: int) -> Tensor:
    return tensors[group] if len(tensors) > 1 else tensors[0][group]


def _rows(x: Tensor, group_list: Tensor, listed: int) -> list[Tensor]:
    ends = (group_list if listed == 0 else group_list.cumsum(0)).tolist()
    return [x[a:b] for a, b in zip((0, *ends), ends)]  # noqa: B905  # one start too many


def _product(x: Tensor, weight: Tensor, parts: Sequence[Tensor | None], per_token: Tensor | None) -> Tensor:
    bias, scale, anti_scale, anti_offset = parts
    exact = not x.is_floating_point() or x.dtype == torch.float64
    if anti_scale is not None:
        weight = (
            weight.float() if anti_offset is None else weight.float() + anti_offset.float()
        ) * anti_scale.float()
    total = x.double() @ weight.double() if exact else x.float() @ weight.float()
    if bias is not None and bias.dtype == torch.int32:
        total = total + bias
    y = total if x.dtype == torch.float64 else total.float()
    y = y if scale is None else y * scale_of(scale)
    y = y if per_token is None else y * per_token.float().unsqueeze(-1)
    return y if bias is None or bias.dtype == torch.int32 else y + bias.float()
