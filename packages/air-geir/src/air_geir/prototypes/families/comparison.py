"""Prototypes: comparison, logic and bits."""

from __future__ import annotations

ROWS = r"""
ApproximateEqual(x1, x2) -> y {tolerance: float = 1e-05}
BitwiseAnd(x1, x2) -> y
BitwiseOr(x1, x2) -> y
BitwiseXor(x1, x2) -> y
Equal(x1, x2) -> y
Greater(x1, x2) -> y
GreaterEqual(x1, x2) -> y
Invert(x) -> y
IsClose(x1, x2) -> y {rtol: float = 1e-05; atol: float = 1e-08; equal_nan: bool = False}
IsFinite(x) -> y
IsInf(x) -> y
IsNan(x) -> y
IsNegInf(x) -> y
IsPosInf(x) -> y
LeftShift(x, y) -> z
Less(x1, x2) -> y
LessEqual(x1, x2) -> y
LogicalAnd(x1, x2) -> y
LogicalNot(x) -> y
LogicalOr(x1, x2) -> y
NotEqual(x1, x2) -> y
PopulationCount(x) -> y
RightShift(x, y) -> z
TensorEqual(input_x, input_y) -> output_z
ToBool(input) -> output
"""
