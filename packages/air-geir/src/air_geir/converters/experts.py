"""Mixtures of experts in models of PyTorch: products of groups of rows, and how many rows each expert has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from air_geir.building import Context, Number, Value
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, SampleTensor, bf16, f32

aten = torch.ops.aten

OF_ROWS, OF_COLUMNS = 0, 2
"""What GroupedMatmul cuts: the rows of x, or what x and weight have in common."""
_RESULT = {torch.int8: -1, torch.bfloat16: 1, torch.int32: 2}
"""How GroupedMatmul spells the type of its results; 0 for the others."""
_BIAS = {torch.bfloat16: torch.float32, torch.int8: torch.int32, torch.quint4x2: torch.float16}
"""The type of a bias, where it is not that of x."""
_NARROW = (torch.int8, torch.quint4x2)
"""Integers: of eight bits, and of four."""
_ENDS, _COLUMNS = (torch.tensor(ends, dtype=torch.int32) for ends in ([1, 3, 3, 4], [2, 2, 5, 8]))


def grouped_products(
    ctx: Context, x: Sequence[Value], weight: Sequence[Value], lists: Mapping[str, Sequence[Value] | None],
    dtypes: Sequence[torch.dtype], attrs: Mapping[str, object], *, shape: Any = None, **given: Value | None,
) -> tuple[Value, ...]:  # fmt: skip
    """One product per group. A list that is not given has one tensor without elements: the kernels read a first one."""
    of_x, of_weight = x[0].dtype, weight[0].dtype
    is_mixed = of_x == torch.int8 and of_weight == torch.quint4x2
    absent = {
        "bias": torch.float32 if is_mixed else _BIAS.get(of_x, of_x),
        "scale": torch.uint64,
        "offset": torch.float32,
        **dict.fromkeys(
            ("antiquant_scale", "antiquant_offset"),
            of_x if of_x not in _NARROW and of_weight in _NARROW else torch.float16,
        ),
    }
    filled: dict[str, Any] = {
        name: list(lists.get(name) or [ctx.fill((0,), 0, dtype)]) for name, dtype in absent.items()
    }
    filled.update(given)
    return ctx.emit_many(
        "GroupedMatmul", list(x), list(weight), dtype=list(dtypes), num_outputs=len(dtypes), shape=shape,
        attrs={**attrs, "dtype": _RESULT.get(dtypes[0], 0)}, **filled,
    )  # fmt: skip


def _grouped(ctx: Context, x: Value, weight: Value, ends: Value, shape: Any, kind: int) -> Value:
    """The groups end where the device's list says."""
    attrs = {
        "split_item": 3, "group_type": kind, "group_list_type": 0, "transpose_x": kind == OF_COLUMNS,
    }  # fmt: skip
    (product,) = grouped_products(
        ctx, [x], [weight], {}, [x.dtype], attrs, shape=[shape], group_list=ctx.cast(ends, torch.int64)
    )
    return product


def _by_rows(ctx: Context, x: Value, weight: Value, ends: Value) -> Value:
    return _grouped(ctx, x, weight, ends, (x.dims[0], weight.dims[2]), OF_ROWS)


def _by_columns(ctx: Context, x: Value, y: Value, ends: Value) -> Value:
    """For each group, its rows of x, transposed, times its rows of y."""
    return _grouped(ctx, x, y, ends, (ends.dims[0], x.dims[1], y.dims[1]), OF_COLUMNS)


@converts(
    "aten._grouped_mm.default",
    samples=[
        Sample(bf16(4, 8), bf16(4, 8, 8), _ENDS),
        Sample(bf16(2, 4, 8), bf16(2, 8, 8)),
        Sample(SampleTensor(torch.bfloat16, (8, 8), permuted=(1, 0)), bf16(8, 8), _COLUMNS),
    ],
)
def grouped_mm(
    ctx: Context, self: Value, mat2: Value, offs: Value | None = None, bias: Value | None = None,
    out_dtype: Any = None,
) -> Value:  # fmt: skip
    """_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor"""  # noqa: E501
    if bias is not None:
        ctx.refuse("a bias for each group has no operator here", "add it to the product")
    if ctx.out_dtype != self.dtype:
        ctx.refuse(f"a product of {self.dtype} in {ctx.out_dtype} has no operator here", "cast the result")
    if offs is None:
        return ctx.emit("BatchMatMul", self, mat2)
    if mat2.rank == 3 and self.rank == 2:
        return _by_rows(ctx, self, mat2, offs)
    if mat2.rank == 2 and self.rank == 2:
        return _by_columns(ctx, ctx.transpose(self, [1, 0]), mat2, offs)
    ctx.refuse(
        f"groups of the columns of a second matrix of rank {mat2.rank} have no operator", "transpose both"
    )


@converts("transformers.grouped_mm_fallback.default")
def grouped_mm_fallback(ctx: Context, input: Value, weight: Value, offs: Value) -> Value:
    """grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor"""
    return _by_rows(ctx, input, weight, offs)


@converts("transformers.grouped_mm_fallback_backward.default")
def grouped_mm_fallback_backward(
    ctx: Context, input: Value, weight: Value, offs: Value, grad_output: Value
) -> tuple[Value, Value]:
    """grouped_mm_fallback_backward(Tensor input, Tensor weight, Tensor offs, Tensor grad_output) -> (Tensor, Tensor)"""
    turned = ctx.transpose(weight, [0, 2, 1])
    return _by_rows(ctx, grad_output, turned, offs), _by_columns(ctx, input, grad_output, offs)


@converts(
    aten.histc.default,
    samples=[
        Sample(f32(40), 8, -2, 2),
        Sample(f32(40), 5),
        Sample(f32(3, 7), 4, 1, 1),
        Sample(torch.tensor([0.0, 2, 2, 5]), 4, 0, 3),
    ],
)
def histc(ctx: Context, self: Value, bins: int = 100, min: Number = 0, max: Number = 0) -> Value:
    """histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"""
    if not isinstance(min, (int, float)) or not isinstance(max, (int, float)):
        ctx.refuse("the bounds of a histogram are attributes", "give numbers")
    low, high = (
        (0, 0) if min == max else (min, max)
    )  # the range of the data, which the operator says with zeros
    taken = self.dtype if self.dtype in (torch.float32, torch.float64, torch.int32) else torch.float32
    counts = ctx.emit(
        "Histogram", ctx.cast(self, taken), bins=bins, min=float(low), max=float(high), shape=(bins,)
    )
    return ctx.cast(counts, ctx.out_dtype)
