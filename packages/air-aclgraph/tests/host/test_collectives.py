"""A replay of a collective is complete when it returns, in place or not, with nobody left to wait for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from air_aclgraph import HostRuntime, Request

collectives = torch.ops._c10d_functional
unfinished = torch._C._distributed_c10d._get_work_registry_size


@pytest.fixture
def group() -> Iterator[str]:
    """A process group of this process alone."""
    store = torch._C._distributed_c10d.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield dist.group.WORLD.group_name  # type: ignore[union-attr]  # there is one now
    dist.destroy_process_group()


def test_S25_a_replay_waits_for_its_collectives(group: str) -> None:
    def body(x: Tensor) -> tuple[Tensor, ...]:
        ours = x + 1
        collectives.wait_tensor(collectives.all_reduce_(ours, "sum", group))
        gathered = collectives.wait_tensor(collectives.all_gather_into_tensor(x, 1, group))
        return ours.relu(), gathered * 2

    x = torch.randn(1000)
    recording = HostRuntime().record(body, (x,), Request())
    before = unfinished()
    for _ in range(3):
        x.normal_()
        recording.replay()
        torch.testing.assert_close(recording.outputs[0], (x + 1).relu())
        torch.testing.assert_close(recording.outputs[1], x * 2)
    assert unfinished() == before
