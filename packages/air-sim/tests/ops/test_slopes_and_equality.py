"""`prelu` with slopes that are shared, and `equal` of tensors of other sizes: as on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

pytestmark = pytest.mark.npu


def trained(device: str, sizes: tuple[int, ...], slopes: int) -> list[Tensor]:
    torch.manual_seed(0)
    x, weight = torch.randn(sizes).to(device).requires_grad_(), torch.rand(slopes).to(device).requires_grad_()
    result = F.prelu(x, weight)
    result.square().sum().backward()
    assert x.grad is not None
    assert weight.grad is not None
    return [result.detach().cpu(), x.grad.cpu(), weight.grad.cpu()]


@pytest.mark.parametrize("slopes", [1, 4])
@pytest.mark.parametrize("sizes", [(3, 4), (2, 4, 5), (2, 4, 3, 2, 2)], ids=str)
def test_the_gradient_of_slopes_is_summed_over_all_that_share_them(
    sizes: tuple[int, ...], slopes: int
) -> None:
    torch.testing.assert_close(trained("npu", sizes, slopes), trained("cpu", sizes, slopes))


@pytest.mark.parametrize("sizes", [(3,), (4,), (3, 1), (1,), (0,)], ids=str)
def test_tensors_of_other_sizes_are_not_equal(sizes: tuple[int, ...]) -> None:
    assert torch.equal(torch.ones(3, device="npu"), torch.ones(sizes, device="npu")) == (sizes == (3,))
