"""What is advised where a graph has more keys than captures: the way that makes the keys at hand one."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor

from aclgraph_backend import executable


def told(caplog: pytest.LogCaptureFixture, function: Any, *calls: tuple[Any, ...], **how: Any) -> list[str]:
    run = executable(function, *calls[0], debug__aclgraph__static_capture_size_limit=2, **how)
    with caplog.at_level(logging.WARNING, "air_aclgraph"):
        for call in calls:
            torch.testing.assert_close(run(*call), function(*call))
    return [record.getMessage() for record in caplog.records]


def test_a_number_that_differs_is_better_a_tensor_of_the_device(
    device: str, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.ones(3, 4, device=device)

    def scaled(x: Tensor, factor: int) -> tuple[Tensor, ...]:
        return (x * factor,)

    calls = [(x, factor) for factor in range(5, 14)]
    first, second, *_ = told(caplog, scaled, *calls, device=device, dynamic=True)
    assert "holds its limit" in first
    assert "as a tensor on the device (input 1)" in first  # this trace has no lines
    assert "Give what differs, a number of the host" in second
    assert "set_dim_buckets" not in first + second


def test_sizes_that_differ_are_better_padded(device: str, caplog: pytest.LogCaptureFixture) -> None:
    def scaled(x: Tensor) -> tuple[Tensor, ...]:
        return (x * x.shape[0],)

    calls = [(torch.ones(rows, 2, device=device),) for rows in range(2, 11)]
    first, second, *_ = told(caplog, scaled, *calls, device=device, dynamic=True)
    assert "pad sizes to fewer" in first
    assert "Pad sizes to fewer" in second
    assert "number of the host" not in first + second
