"""An index of no elements is an index; an empty tensor says `no index` only beside one that has elements."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.npu


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 3, 2)])
def test_an_index_of_no_elements_reads_and_writes_nothing(shape: tuple[int, ...]) -> None:
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    none = torch.zeros(0, dtype=torch.long)
    device = x.to("npu")
    assert device[none.to("npu")].shape == x[none].shape
    assert device[..., none.to("npu")].shape == x[..., none].shape
    device[none.to("npu")] = 7.0
    assert torch.equal(device.cpu(), x)


def test_a_dimension_without_an_index_is_taken_whole() -> None:
    x = torch.arange(24.0).reshape(4, 3, 2)
    index = torch.tensor([2, 0])
    assert torch.equal(x.to("npu")[:, index.to("npu")].cpu(), x[:, index])
    assert torch.equal(x.to("npu")[:, :, index.to("npu") // 2].cpu(), x[:, :, index // 2])


def test_indices_of_32_bits_are_indices() -> None:
    x, index = torch.arange(12.0).reshape(4, 3), torch.tensor([2, 0])
    device, short = x.to("npu"), index.int().to("npu")
    assert torch.equal(device.index_fill(0, short, -1.0).cpu(), x.index_fill(0, index, -1.0))
    assert torch.equal(device.clone().index_fill_(1, short, -1.0).cpu(), x.index_fill(1, index, -1.0))
    assert torch.equal(device.clone().put_(short, device[0, :2]).cpu(), x.clone().put_(index, x[0, :2]))
