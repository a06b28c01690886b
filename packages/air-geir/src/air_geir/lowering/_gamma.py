"""The gamma function and its derivatives, which no operator of Ascend IR computes, written with arithmetic.

As accurate as torch's kernels, near the zeros of the logarithm (at one and two) as well: a series there, Stirling's
formula for large numbers, a product between the two, and the reflection for negative numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

_EULER: Final = 0.57721566490153286061
_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _zeta_without_one(k: int) -> float:
    """1/2**k + 1/3**k + ...: some terms, and the formula of Euler and Maclaurin for the rest."""
    n = 200
    rest = n ** (1 - k) / (k - 1) + n**-k / 2 + k / 12 * n ** (-k - 1)
    rest -= k * (k + 1) * (k + 2) / 720 * n ** (-k - 3)
    return math.fsum([*(i**-k for i in range(2, n)), rest])


_LAST_FACTORIAL: Final = 170
"""Those of larger numbers are larger than any float."""
_NEAR_TWO: Final = (1 - _EULER, *((-1) ** k * _zeta_without_one(k) / k for k in range(2, 28)))
"""ln gamma(2 + z) as a series in z, from its first power on; half of a number apart each term is a quarter."""
_STIRLING: Final = tuple(b / ((2 * k + 1) * (2 * k + 2)) for k, b in enumerate(_BERNOULLI))
_DIGAMMA: Final = tuple(b / (2 * k + 2) for k, b in enumerate(_BERNOULLI))


def _series(x: Tensor, factors: Sequence[float]) -> Tensor:
    """factors[0] + factors[1] * x + factors[2] * x**2 ..."""
    *others, last = factors
    total = x * last
    for factor in reversed(others[1:]):
        total = (total + factor) * x
    return total + others[0]


def _wide(self: Tensor) -> Tensor:
    """Half precision is computed in 32 bits, whole numbers in the default type."""
    if not self.is_floating_point():
        return self.to(torch.get_default_dtype())
    return self if self.dtype == torch.float64 else self.float()


def _result(self: Tensor, value: Tensor) -> Tensor:
    return value.to(self.dtype) if self.is_floating_point() else value


def _lgamma(self: Tensor) -> Tensor:
    """lgamma"""
    x = _wide(self)
    terms, large, stirling = (27, 10, 7) if x.dtype == torch.float64 else (12, 4, 4)
    size = x.abs()
    near = size.clamp(max=large)
    product = torch.ones_like(near)
    for _ in range(large - 2):
        above = near > 2.5
        near = torch.where(above, near - 1, near)
        product = torch.where(above, product * near, product)
    tiny, below = size < 0.5, size < 1.5  # near zero the series holds for both signs
    away = torch.where(tiny, x, torch.where(below, near - 1, near - 2))
    logarithm = torch.where(below, torch.where(tiny, size * (x + 1), size), product).log()
    small = away * _series(away, _NEAR_TWO[:terms]) + torch.where(below, -logarithm, logarithm)
    inverse = size.clamp(min=large).reciprocal()
    rest = inverse * _series(inverse * inverse, _STIRLING[:stirling])
    big = (size - 0.5) * (size.log() - 1) + (rest + (math.log(2 * math.pi) - 1) / 2)
    positive = torch.where(size < large, small, big)
    sine = ((x - x.round()) * math.pi).sin().abs()
    mirrored = (math.pi / (sine * size)).log() - positive
    reflected = torch.where(x == x.trunc(), math.inf, mirrored)
    return _result(self, torch.where(x <= -0.5, reflected, positive))


def _digamma(self: Tensor) -> Tensor:
    """digamma"""
    x = _wide(self)
    shifts, terms = (10, 7) if x.dtype == torch.float64 else (6, 4)
    size = torch.where(x < 0, 1 - x, x)
    steps = size.reciprocal()
    for shift in range(1, shifts):
        steps = steps + (size + shift).reciprocal()
    far = size + shifts
    inverse = far.reciprocal()
    square = inverse * inverse
    positive = far.log() - 0.5 * inverse - square * _series(square, _DIGAMMA[:terms]) - steps
    reflected = positive - math.pi / ((x - x.round()) * math.pi).tan()
    whole = torch.where(x == x.trunc(), math.nan, reflected)
    return _result(self, torch.where(x < 0, whole, positive))


def _trigamma(x: Tensor) -> Tensor:
    mirrored = x < 0.5
    size = torch.where(mirrored, 1 - x, x)
    steps = (size * size).reciprocal()
    for shift in range(1, 6):
        far = size + shift
        steps = steps + (far * far).reciprocal()
    inverse = (size + 6).reciprocal()
    square = inverse * inverse
    tail = (_series(square, (1 / 6, -1 / 30, 1 / 42)) * square + 0.5 * inverse + 1) * inverse
    positive = steps + tail
    sine = (x * math.pi).sin()
    return torch.where(mirrored, math.pi * math.pi / (sine * sine) - positive, positive)


def _polygamma(n: int, self: Tensor) -> Any:
    """polygamma: of higher orders by the zeta function of Hurwitz, as torch's kernel computes it."""
    if n < 0:
        return NotImplemented
    if n == 0:
        return _digamma(self)
    x = _wide(self)
    if n == 1:
        return _result(self, _trigamma(x))
    size = math.exp(math.lgamma(n + 1)) if n <= _LAST_FACTORIAL else math.inf
    return _result(self, (size if n % 2 else -size) * torch.special.zeta(n + 1, x))


GAMMA: Final[Mapping[object, Callable[..., Any]]] = {
    torch.ops.prims.lgamma.default: _lgamma,
    torch.ops.prims.digamma.default: _digamma,
    torch.ops.aten.polygamma.default: _polygamma,
}
