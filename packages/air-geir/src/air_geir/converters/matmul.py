"""Products of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from air_geir.building import Context, Number, Value
from air_geir.converters._precision import working_dtype
from air_geir.converters._registry import converts
from air_geir.converters._rows import register_direct
from air_geir.converters._sample import Sample, bf16, f16, f32, i8, i32

aten = torch.ops.aten


_PRODUCTS = {
    "mm.default": ("MatMul(self mat2)", [Sample(f32(3, 4), f32(4, 5)), Sample(i32(3, 4), i32(4, 2))]),
    "bmm.default": ("BatchMatMul(self mat2)", [Sample(f32(2, 3, 4), f32(2, 4, 5))]),
}
register_direct(_PRODUCTS, "matmul")


@converts(aten._int_mm.default, samples=[Sample(i8(32, 24), i8(24, 16))])
def int_mm(ctx: Context, self: Value, mat2: Value) -> Value:
    """_int_mm(Tensor self, Tensor mat2) -> Tensor"""
    return ctx.emit("MatMul", *ctx.promote(self, mat2, dtype=torch.int32))


def _is(number: Number, value: int) -> bool:
    return isinstance(number, (int, float)) and number == value


def _weighted(ctx: Context, value: Value, factor: Number) -> Value:
    return value if _is(factor, 1) else ctx.emit("Mul", value, ctx.number(factor, value.dtype))


def _added(
    ctx: Context,
    bias: Value,
    factors: Sequence[Value],
    product: Callable[..., Value],
    beta: Number,
    alpha: Number,
) -> Value:
    """beta * bias + alpha * product, half precision rounded once; a beta of zero keeps NaN of the bias out."""
    dtype = ctx.out_dtype
    if _is(beta, 0) and _is(alpha, 1):
        return product(*factors)
    wide = working_dtype(dtype)
    if _is(alpha, 0):
        scaled = ctx.fill(ctx.out_shape, 0, wide)
    else:
        scaled = _weighted(ctx, product(*ctx.promote(*factors, dtype=wide)), alpha)
    if _is(beta, 0):
        return ctx.cast(scaled, dtype)
    return ctx.cast(ctx.emit("Add", _weighted(ctx, ctx.cast(bias, wide), beta), scaled), dtype)


@converts(
    aten.addmm.default,
    samples=[
        Sample(f32(5), f32(3, 4), f32(4, 5)),
        Sample(f32(3, 5), f32(3, 4), f32(4, 5), beta=0.5, alpha=2),
        Sample(f32(5), f32(3, 4), f32(4, 5), beta=0),
    ],
)
def addmm(
    ctx: Context, self: Value, mat1: Value, mat2: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    """addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    if _is(beta, 1) and _is(alpha, 1) and self.rank == 1:
        return ctx.emit("MatMulV2", mat1, mat2, self)

    def product(left: Value, right: Value) -> Value:
        return ctx.emit("MatMulV2", left, right, shape=(left.dims[0], right.dims[1]))

    return _added(ctx, self, (mat1, mat2), product, beta, alpha)


@converts(aten.baddbmm.default, samples=[Sample(f32(2, 3, 5), f32(2, 3, 4), f32(2, 4, 5), beta=0.5, alpha=2)])
def baddbmm(
    ctx: Context, self: Value, batch1: Value, batch2: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    """baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""

    def product(left: Value, right: Value) -> Value:
        return ctx.emit("BatchMatMul", left, right, shape=(*left.dims[:2], right.dims[2]))

    return _added(ctx, self, (batch1, batch2), product, beta, alpha)


@converts(
    aten.addbmm.default,
    samples=[
        Sample(f32(3, 5), f32(2, 3, 4), f32(2, 4, 5)),
        Sample(f32(5), f32(2, 3, 4), f32(2, 4, 5), beta=0.5, alpha=2),
    ],
)
def addbmm(
    ctx: Context, self: Value, batch1: Value, batch2: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    """addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""

    def product(left: Value, right: Value) -> Value:
        shape = (*left.dims[:2], right.dims[2])
        return ctx.emit("ReduceSum", ctx.emit("BatchMatMul", left, right, shape=shape), [0], shape=shape[1:])

    return _added(ctx, self, (batch1, batch2), product, beta, alpha)


@converts(aten.mv.default, samples=[Sample(f32(3, 4), f32(4))])
def mv(ctx: Context, self: Value, vec: Value) -> Value:
    """mv(Tensor self, Tensor vec) -> Tensor"""
    column = ctx.reshape(vec, (*vec.dims, 1))
    product = ctx.emit("MatMul", self, column, shape=(self.dims[0], 1))
    return ctx.reshape(product, self.dims[:1])


@converts(aten.dot.default, samples=[Sample(f32(4), f32(4))])
def dot(ctx: Context, self: Value, tensor: Value) -> Value:
    """dot(Tensor self, Tensor tensor) -> Tensor"""
    product = ctx.emit("Mul", self, tensor)
    return ctx.emit("ReduceSum", product, [0])


@converts(
    aten.addmv.default,
    samples=[
        Sample(f32(3), f32(3, 4), f32(4)),
        Sample(f16(3), f16(3, 4), f16(4)),
        Sample(f32(3), f32(3, 4), f32(4), beta=0.5, alpha=2),
        Sample(f16(8), f16(8, 4), f16(4), beta=0.3, alpha=0.7),
        Sample(f32(1), f32(3, 4), f32(4), beta=0),
    ],
)
def addmv(ctx: Context, self: Value, mat: Value, vec: Value, *, beta: Number = 1, alpha: Number = 1) -> Value:
    """addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    row, bias = ctx.reshape(vec, (1, *vec.dims)), ctx.broadcast(self, mat.dims[:1])
    if _is(beta, 1) and _is(alpha, 1):
        product = ctx.emit("MatMulV2", row, mat, bias, transpose_x2=True, shape=(1, mat.dims[0]))
    else:
        added = _weighted(ctx, bias, beta)

        def multiplied(left: Value, right: Value) -> Value:
            return ctx.emit("MatMulV2", left, right, transpose_x2=True, shape=(1, right.dims[0]))

        wide = working_dtype(self.dtype)
        factor = ctx.cast(ctx.number(alpha, self.dtype), wide)
        scaled = ctx.emit("Mul", multiplied(*ctx.promote(row, mat, dtype=wide)), factor)
        whole = scaled if _is(beta, 0) else ctx.emit("Add", ctx.cast(added, wide), scaled)
        product = ctx.cast(whole, self.dtype)
    return ctx.reshape(product, mat.dims[:1])


@converts(
    aten.addr.default,
    samples=[
        Sample(f32(3, 4), f32(3), f32(4), beta=0.5, alpha=2),
        Sample(f16(8, 9), f16(8), f16(9), beta=0.3, alpha=0.7),
        Sample(bf16(8, 9), bf16(8), bf16(9)),
        Sample(f32(4), f32(3), f32(4), beta=0),
    ],
)
def addr(
    ctx: Context, self: Value, vec1: Value, vec2: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    """addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    dtype = ctx.out_dtype
    if dtype == torch.bool:
        ctx.decompose()
    bias, first, second = ctx.promote(self, vec1, vec2, dtype=dtype)
    column = ctx.reshape(_weighted(ctx, first, alpha), (*vec1.dims, 1))
    product = ctx.emit("Mul", column, second)
    return product if _is(beta, 0) else ctx.emit("Add", _weighted(ctx, bias, beta), product)
