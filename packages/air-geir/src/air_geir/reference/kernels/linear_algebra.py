"""Systems of equations."""

from __future__ import annotations

import torch
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel


@kernel("MatrixTriangularSolve")
def matrix_triangular_solve(op: Operator) -> Run:
    """The solution of matrix @ y = rhs, from one triangle of the matrix or of its conjugate transpose."""
    lower, adjoint = bool(op.attr("lower")), bool(op.attr("adjoint"))

    def run(matrix: Tensor, rhs: Tensor) -> Tensor:
        a, upper = (matrix.mH, lower) if adjoint else (matrix, not lower)
        solution: Tensor = torch.linalg.solve_triangular(a, rhs, upper=upper)
        return solution

    return run
