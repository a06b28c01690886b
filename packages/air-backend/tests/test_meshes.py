"""A function of distributed tensors that was trained eagerly before is compiled all the same."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from air_backend.eager_calls.errors import NotTraced


@pytest.fixture
def mesh() -> Iterator[Any]:
    dist.init_process_group("gloo", store=torch._C._distributed_c10d.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        dist.destroy_process_group()


def step(x: Any) -> Any:
    return x.sin().redistribute(placements=[Replicate()]).cos()


def gradient(function: Any, mesh: Any) -> Tensor:
    x = distribute_tensor(torch.arange(12.0).view(4, 3), mesh, [Shard(0)]).requires_grad_()
    function(x).full_tensor().sum().backward()
    assert x.grad is not None
    found: Tensor = x.grad.to_local()  # type: ignore[attr-defined]  # it is distributed
    return found


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N22_a_function_that_was_trained_eagerly_before_is_compiled(mode: str, mesh: Any) -> None:
    expected = gradient(step, mesh)
    alike = init_device_mesh("cpu", (1,))
    compiled = torch.compile(step, backend="air", mode=mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotTraced)
        for _ in range(2):
            torch.testing.assert_close(gradient(compiled, alike), expected)
