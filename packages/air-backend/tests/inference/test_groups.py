"""A model that holds a process group: its file serves other groups of the same name, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn

from air_backend.inference import cache_compile


class Summed(nn.Module):
    def __init__(self, group: Any) -> None:
        super().__init__()
        self.group = group

    def step(self, x: Tensor) -> Tensor:
        total: Tensor = functional.all_reduce(x * 2, "sum", self.group)
        return total + 1


def join() -> None:
    store = torch._C._distributed_c10d.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    join()
    yield
    dist.destroy_process_group()


def files_after(group: Any, folder: Path) -> int:
    """How many graphs a function has on the disk after a call of a process that has traced nothing."""
    torch._dynamo.reset()
    step = cache_compile(Summed(group).step, cache_dir=str(folder))
    assert step(torch.ones(2)).tolist() == [3.0, 3.0]
    return len([path for path in step.folder.iterdir() if path.is_file()])


def test_S22_a_file_serves_another_group_of_the_same_name(tmp_path: Path) -> None:
    assert files_after(dist.group.WORLD, tmp_path) == 1
    dist.destroy_process_group()
    join()
    assert files_after(dist.group.WORLD, tmp_path) == 1


def test_a_group_of_another_name_is_traced_once_more(tmp_path: Path) -> None:
    assert files_after(dist.group.WORLD, tmp_path) == 1
    assert files_after(dist.new_group([0]), tmp_path) == 2
