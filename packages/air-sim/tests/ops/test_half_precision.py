"""Functions that libtorch computes in single precision alone on a CPU: a device has them in half precision as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

pytestmark = pytest.mark.npu

FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "average of cubes": (lambda x: F.avg_pool3d(x, 2), (1, 2, 4, 4, 4)),
    "local response": (lambda x: F.local_response_norm(x, 2), (1, 4, 3, 3)),
    "antialiased": (
        lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
        (1, 2, 4, 4),
    ),
    "distances": (lambda x: torch.cdist(x, x.flip(0) + 1), (3, 4)),
    "divergence for its target": (
        lambda x: F.kl_div(x.detach().flip(0).log_softmax(-1), x.softmax(-1), reduction="batchmean"),
        (3, 4),
    ),
}


def stepped(name: str, device: str, dtype: torch.dtype) -> list[Tensor]:
    function, sizes = FUNCTIONS[name]
    torch.manual_seed(0)
    x = torch.randn(sizes).to(device, dtype).requires_grad_()
    result = function(x)
    result.square().sum().backward()
    assert x.grad is not None
    return [result.detach().cpu(), x.grad.cpu()]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_trains_in_every_precision(name: str, dtype: torch.dtype) -> None:
    near = {torch.float16: 0.01, torch.bfloat16: 0.06, torch.float32: 1e-4}[dtype]
    found, expected = stepped(name, "npu", dtype), stepped(name, "cpu", torch.float32)
    assert [one.dtype for one in found] == [dtype, dtype]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=near, atol=near * float(other.abs().max()))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
def test_the_gradient_of_distances_of_each_order(batch: tuple[int, ...], p: float) -> None:
    first, second = torch.randn(*batch, 3, 4), torch.randn(*batch, 5, 4)
    gradients = []
    for device in ("npu", "cpu"):
        a, b = (value.to(device).requires_grad_() for value in (first, second))
        torch.cdist(a, b, p=p).square().sum().backward()
        assert a.grad is not None
        assert b.grad is not None
        gradients.append((a.grad.cpu(), b.grad.cpu()))
    torch.testing.assert_close(*gradients)
