"""Gradients of products that an NPU keeps as one operator are those that autograd gives on the CPU."""

from __future__ import annotations

import pytest
import torch

from air_geir.lowering._matmul_gradients import MATMUL_GRADIENTS

aten = torch.ops.aten
SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 6, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((3, 4), (2, 6, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((2, 0, 4), (4, 5)),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_gradients_of_matmul(left: tuple[int, ...], right: tuple[int, ...], dtype: torch.dtype) -> None:
    a, b = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in (left, right))
    product = a @ b
    grad = torch.randn_like(product)
    expected = torch.autograd.grad(product, (a, b), grad)
    found = MATMUL_GRADIENTS[aten.matmul_backward.default](grad, a.detach(), b.detach(), [True, True])
    torch.testing.assert_close(found, expected)
    one, none = MATMUL_GRADIENTS[aten.matmul_backward.default](grad, a.detach(), b.detach(), [True, False])
    torch.testing.assert_close(one, expected[0])
    assert none is None


@pytest.mark.parametrize("shape", [(3, 4), (4,), (2, 3, 4)], ids=str)
def test_gradients_of_linear(shape: tuple[int, ...]) -> None:
    x, w, b = (torch.randn(size, dtype=torch.float64, requires_grad=True) for size in (shape, (5, 4), (5,)))
    y = torch.nn.functional.linear(x, w, b)
    grad = torch.randn_like(y)
    expected = torch.autograd.grad(y, (x, w, b), grad)
    found = MATMUL_GRADIENTS[aten.linear_backward.default](x.detach(), grad, w.detach(), [True] * 3)
    torch.testing.assert_close(found, expected)
