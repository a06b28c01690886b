"""Gradients of products that an NPU keeps as one operator are those that autograd gives on the CPU.

A batch of several matrices that was broadcast is not summed yet: torch_npu gives it so, and autograd sums over it.
"""

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
    ((2, 6, 1, 4), (6, 4, 5)),
    ((2, 6, 3, 4), (1, 6, 4, 5)),
    ((1, 6, 3, 4), (6, 4, 5)),
    ((1, 3, 4), (2, 6, 4, 5)),
    ((2, 6, 3, 4), (1, 4, 5)),
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
    for one, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(one.sum_to_size(wanted.shape), wanted)
    one, none = MATMUL_GRADIENTS[aten.matmul_backward.default](grad, a.detach(), b.detach(), [True, False])
    assert torch.equal(one, found[0])
    assert none is None


@pytest.mark.npu("matmul_backward has a kernel only there")
@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_gradients_of_matmul_have_the_sizes_that_torch_npu_gives(
    left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    pytest.importorskip("torch_npu")
    a, b = torch.randn(left, device="npu"), torch.randn(right, device="npu")
    given = torch.randn((a @ b).shape, device="npu"), a, b, [True, True]
    found, kernels = MATMUL_GRADIENTS[aten.matmul_backward.default](*given), aten.matmul_backward(*given)
    for one, wanted in zip(found, kernels, strict=True):  # a lowering makes a row of a vector
        torch.testing.assert_close(one, wanted.reshape(one.shape) if one.dim() == 1 else wanted)


@pytest.mark.parametrize("shape", [(3, 4), (4,), (2, 3, 4)], ids=str)
def test_gradients_of_linear(shape: tuple[int, ...]) -> None:
    x, w, b = (torch.randn(size, dtype=torch.float64, requires_grad=True) for size in (shape, (5, 4), (5,)))
    y = torch.nn.functional.linear(x, w, b)
    grad = torch.randn_like(y)
    expected = torch.autograd.grad(y, (x, w, b), grad)
    found = MATMUL_GRADIENTS[aten.linear_backward.default](x.detach(), grad, w.detach(), [True] * 3)
    torch.testing.assert_close(found, expected)
