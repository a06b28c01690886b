"""Triangular systems of equations."""

from __future__ import annotations

import torch

from air_geir.building import Context, Value, broadcast
from air_geir.converters._registry import converts
from air_geir.converters._sample import Sample, f32

aten = torch.ops.aten


def _turned(ctx: Context, value: Value) -> Value:
    """The last two axes swapped."""
    return ctx.transpose(value, [*range(value.rank - 2), value.rank - 1, value.rank - 2])


def _with_ones(ctx: Context, matrix: Value) -> Value:
    """The matrix with ones on its diagonal."""
    size = matrix.dims[-1]
    numbers = ctx.numbers(size)
    diagonal = ctx.emit("Equal", ctx.reshape(numbers, (size, 1)), numbers)
    return ctx.emit("SelectV2", diagonal, ctx.const(1, matrix.dtype), matrix, shape=matrix.shape)


def _solved(ctx: Context, matrix: Value, rhs: Value, *, upper: bool, unit: bool) -> Value:
    """X with matrix @ X = rhs, where only one triangle of the matrix counts."""
    batch = broadcast([matrix.dims[:-2], rhs.dims[:-2]]) or ()
    matrix = ctx.broadcast(matrix, (*batch, *matrix.dims[-2:]))
    rhs = ctx.broadcast(rhs, (*batch, *rhs.dims[-2:]))
    return ctx.emit(
        "MatrixTriangularSolve", _with_ones(ctx, matrix) if unit else matrix, rhs, lower=not upper,
        dtype=rhs.dtype, shape=rhs.shape,
    )  # fmt: skip


_SQUARE = torch.tensor([[2.0, 0.5, -1.0], [0.25, 3.0, 1.0], [1.0, -0.5, 1.5]])


@converts(
    aten.linalg_solve_triangular.default,
    samples=[
        Sample(_SQUARE, f32(3, 2), upper=True),
        Sample(_SQUARE, f32(4, 2, 3), upper=False, left=False),
        Sample(_SQUARE.expand(2, 3, 3), f32(5, 1, 3, 2), upper=False, unitriangular=True),
        Sample(_SQUARE, f32(2, 3), upper=True, left=False, unitriangular=True),
    ],
)
def solve_triangular(
    ctx: Context, self: Value, B: Value, *, upper: bool, left: bool = True, unitriangular: bool = False  # noqa: N803
) -> Value:  # fmt: skip
    """linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor"""  # noqa: E501
    if left:
        return _solved(ctx, self, B, upper=upper, unit=unitriangular)
    solution = _solved(ctx, _turned(ctx, self), _turned(ctx, B), upper=not upper, unit=unitriangular)
    return _turned(ctx, solution)


@converts(
    aten.triangular_solve.default,
    samples=[Sample(f32(3, 2), _SQUARE), Sample(f32(4, 3, 2), _SQUARE, False, True, True)],
)
def triangular_solve(
    ctx: Context, self: Value, A: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False  # noqa: N803
) -> tuple[Value, Value]:  # fmt: skip
    """triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)"""  # noqa: E501
    matrix = _turned(ctx, A) if transpose else A
    solution = _solved(ctx, matrix, self, upper=upper != transpose, unit=unitriangular)
    return solution, ctx.broadcast(A, (*solution.dims[:-2], *A.dims[-2:]))
