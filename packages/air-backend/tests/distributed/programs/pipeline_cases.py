"""`torch.distributed.pipelining`: each rank has a compiled stage of a model, and microbatches pass through them."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import pipelining

from distributed.programs.setting import CALLS, Case, Setting, equal, same_gradients

WIDTH, ROWS, MICROBATCHES = 8, 8, 4


class Stage(nn.Module):
    """A part of the model that keeps more than its output for the way back."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 16)
        self.second = nn.Linear(16, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.second(torch.tanh(self.first(x)))
        return y


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean()


def stages(setting: Setting) -> tuple[nn.Sequential, Stage, Any]:
    """The whole model, the part of this rank, and that part compiled."""
    torch.manual_seed(0)
    alone = nn.Sequential(*(Stage() for _ in range(setting.mesh.size()))).to(setting.device)
    ours = copy.deepcopy(alone[setting.rank])
    assert isinstance(ours, Stage)
    return alone, ours, setting.compiled(ours)


def step(setting: Setting, run: Any, schedule: str, batch: Tensor, target: Tensor | None) -> Any:
    """One batch through all stages; the last rank gives the output."""
    count, rank = setting.mesh.size(), setting.rank
    stage = pipelining.PipelineStage(run, rank, count, setting.device)
    planned = getattr(pipelining, schedule)(stage, MICROBATCHES, loss_fn=None if target is None else loss_of)
    given = (batch,) if rank == 0 else ()
    if target is None:
        return planned.step(*given)
    return planned.step(*given, **({"target": target} if rank == count - 1 else {}))


def training(schedule: str) -> Case:
    def case(setting: Setting) -> None:
        alone, ours, run = stages(setting)
        last = setting.rank == setting.mesh.size() - 1
        for _ in range(CALLS):
            batch, target = setting.random(ROWS, WIDTH), setting.random(ROWS, WIDTH)
            alone.zero_grad()
            ours.zero_grad()
            expected = alone(batch)
            loss_of(expected, target).backward()
            output = step(setting, run, schedule, batch, target)
            if last:
                equal(output, expected)
            same_gradients(ours.parameters(), alone[setting.rank].parameters())

    return case


def inference(setting: Setting) -> None:
    alone, _, run = stages(setting)
    with torch.no_grad():
        for _ in range(CALLS):
            batch = setting.random(ROWS, WIDTH)
            output = step(setting, run, "ScheduleGPipe", batch, None)
            if setting.rank == setting.mesh.size() - 1:
                equal(output, alone(batch))


CASES: dict[str, Case] = {
    "a pipeline trained by GPipe": training("ScheduleGPipe"),
    "a pipeline trained by 1F1B": training("Schedule1F1B"),
    "a pipeline without training": inference,
}
