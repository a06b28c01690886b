"""Functions of distributed tensors, and modules split by `parallelize_module`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from distributed.programs.setting import CALLS, Case, Setting, equal, same_gradients


class Block(nn.Module):
    """A norm and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        down: Tensor = self.down(torch.relu(self.up(self.norm(x))))
        return down


TENSOR = {"up": ColwiseParallel(), "down": RowwiseParallel()}
SEQUENCE = {
    "": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Replicate()),
}


def split(setting: Setting, plan: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
    """A module, and the same one split over the ranks."""
    torch.manual_seed(0)
    alone = Block().to(setting.device)
    return alone, parallelize_module(copy.deepcopy(alone), setting.mesh, plan)


def inference(plan: dict[str, Any]) -> Case:
    def case(setting: Setting) -> None:
        alone, shared = split(setting, plan)
        compiled = setting.compiled(shared)
        with torch.no_grad():
            for _ in range(CALLS):
                x = setting.random(2, 4, 8)
                equal(compiled(x), alone(x))

    return case


def training(plan: dict[str, Any]) -> Case:
    def case(setting: Setting) -> None:
        alone, shared = split(setting, plan)
        compiled = setting.compiled(shared)
        for _ in range(CALLS):
            x = setting.random(2, 4, 8)
            for model, call in ((alone, alone), (shared, compiled)):
                model.zero_grad()
                call(x).square().sum().backward()
            same_gradients(shared.parameters(), alone.parameters())

    return case


def function_of(function: Callable[..., Any], *placements: Any) -> Case:
    """A function of distributed tensors of 4 x 8 that gives distributed tensors."""

    def case(setting: Setting) -> None:
        compiled, mesh = setting.compiled(function), setting.mesh
        for _ in range(CALLS):
            given = [distribute_tensor(setting.random(4, 8), mesh, [place]) for place in placements]
            for ours, expected in zip(compiled(*given), function(*given), strict=True):
                assert ours.placements == expected.placements
                assert ours.device_mesh == expected.device_mesh
                equal(ours.to_local(), expected.to_local())

    return case


def products(x: DTensor, w: DTensor) -> tuple[Tensor, ...]:
    return torch.relu(x @ w.t()), x + 1, w.sum(0)


def redistributed(x: DTensor, w: DTensor) -> tuple[Tensor, ...]:
    rows: Any = x.redistribute(placements=[Replicate()])
    return (rows * w).redistribute(placements=[Shard(0)]), x.redistribute(placements=[Shard(1)]), x


def written(setting: Setting) -> None:
    """A distributed cache that the function writes in place."""

    def step(cache: DTensor, x: DTensor) -> Tensor:
        cache.add_(x)
        return cache.sum()

    mesh = setting.mesh
    compiled = setting.compiled(step)
    ours, theirs = (
        distribute_tensor(torch.ones(4, 8).to(setting.device), mesh, [Shard(0)]) for _ in range(2)
    )
    for _ in range(CALLS):
        x = distribute_tensor(setting.random(4, 8), mesh, [Shard(0)])
        equal(compiled(ours, x), step(theirs, x))
        equal(ours, theirs)


def mesh_as_argument(setting: Setting) -> None:
    """Another mesh that is equal needs no capture; one of other ranks is another function."""

    def gathered(x: Tensor, mesh: DeviceMesh) -> Tensor:
        summed = DTensor.from_local(x, mesh, [Partial()]).redistribute(placements=[Replicate()])
        return summed.to_local() * 2

    compiled = setting.compiled(gathered)
    ranks = setting.mesh.size()
    kind = setting.device.type
    alike = [setting.mesh, init_device_mesh(kind, (ranks,), mesh_dim_names=("ranks",)), setting.mesh]
    counters["air"].clear()
    for mesh in alike:
        x = setting.random(2, 3)
        equal(compiled(x, mesh), gathered(x, mesh))
    if setting.mode == "reduce-overhead":
        assert counters["air"]["captures"] == 1
    single = init_device_mesh(kind, (ranks, 1), mesh_dim_names=("rows", "one"))["one"]
    for mesh in (single, setting.mesh, single):
        x = setting.random(2, 3)
        equal(compiled(x, mesh), gathered(x, mesh))


def captured_at_different_times(setting: Setting) -> None:
    """Each rank has sizes of its own: one captures in a call in which another replays."""

    group: Any = setting.mesh.get_group()

    def summed(x: Tensor) -> Tensor:
        total: Tensor = functional.all_reduce((x * 2).sum(0), "sum", group)
        return total + 1

    compiled = setting.compiled(summed, dynamic=True)
    for step in range(8):
        x = setting.random(2 + (step * (1 + setting.rank)) % 5, 3)
        equal(compiled(x), summed(x))


CASES: dict[str, Case] = {
    "tensor parallel": inference(TENSOR),
    "sequence parallel": inference(SEQUENCE),
    "tensor parallel training": training(TENSOR),
    "sequence parallel training": training(SEQUENCE),
    "distributed tensors in and out": function_of(products, Shard(0), Shard(1)),
    "redistributed tensors": function_of(redistributed, Shard(0), Replicate()),
    "a distributed cache": written,
    "a mesh as an argument": mesh_as_argument,
    "captures at different times": captured_at_different_times,
}
