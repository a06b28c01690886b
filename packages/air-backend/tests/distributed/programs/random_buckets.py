"""Layers of several ranks whose number of rows differs from call to call, padded or with gears, against eager.

    PYTHONPATH=packages/air-backend/tests torchrun --nproc-per-node 2 \\
        -m distributed.programs.random_buckets --programs 100

Seeds of even number run in reduce-overhead and declare buckets; the others declare gears.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from air_backend.inference import set_dim_buckets, set_dim_gears
from distributed.programs import judging

WIDTH: Final = 8
BUCKETS: Final = [4, 8, 16]
ROWS: Final = (1, 2, 3, 5, 7, 8, 11, 16)
Step = Callable[["Program", Tensor, Tensor], Any]


def _reduced_in_place(x: Tensor) -> Tensor:
    own = x.clone()
    dist.all_reduce(own)
    return own


def _part_of_columns(program: Program, x: Tensor) -> Any:
    wide = x.repeat(1, program.ranks).t().contiguous()
    return functional.reduce_scatter_tensor(wide, "sum", 0, program.group).t().contiguous()


def _gathered(program: Program, x: Tensor, dim: int) -> Tensor:
    """What all ranks have; torch 2.11 gathers contiguous tensors only."""
    return functional.all_gather_tensor(x.contiguous(), dim, program.group)


STEPS: Final[dict[str, Step]] = {
    "a layer of all": lambda program, x, y: x @ program.shared,
    "a layer of this rank": lambda program, x, y: x @ program.own,
    "relu": lambda program, x, y: x.relu(),
    "norm": lambda program, x, y: torch.nn.functional.layer_norm(x, (WIDTH,)),
    "softmax": lambda program, x, y: x.softmax(-1),
    "residual": lambda program, x, y: x + y,
    "summed": lambda program, x, y: functional.all_reduce(x, "sum", program.group) / program.ranks,
    "largest": lambda program, x, y: functional.all_reduce(x, "max", program.group),
    "in place": lambda program, x, y: _reduced_in_place(x) / program.ranks,
    "together": lambda program, x, y: torch.add(
        *functional.all_reduce_coalesced([x + 1, x * 0.5], "sum", program.group)
    ),
    "sent": lambda program, x, y: functional.broadcast(x, 0, program.group),
    "columns of all": lambda program, x, y: _gathered(program, x, 1)[:, -WIDTH:],
    "rows of all": lambda program, x, y: _gathered(program, x, 0)[: x.shape[0]],
    "part of the columns": lambda program, x, y: _part_of_columns(program, x),
    "part of the rows": lambda program, x, y: functional.reduce_scatter_tensor(
        torch.cat([x] * program.ranks), "sum", 0, program.group
    ),
}


class Program:
    """Steps drawn from a seed, over rows that differ from call to call."""

    is_trained = False
    is_dynamic = True
    group: Any
    ranks: int
    shared: Tensor
    own: Tensor

    def __init__(self, seed: int, mesh: DeviceMesh) -> None:
        chance = random.Random(seed)
        self.seed, self.device = seed, mesh.device_type
        self.group, self.ranks = dist.group.WORLD, dist.get_world_size()
        self.steps = [chance.choice(sorted(STEPS)) for _ in range(chance.randrange(3, 9))]
        self.rows = chance.sample(ROWS, 3)
        torch.manual_seed(seed)
        self.shared = (torch.randn(WIDTH, WIDTH) * 0.3).to(self.device)
        torch.manual_seed(100 * seed + dist.get_rank())
        self.own = (torch.randn(WIDTH, WIDTH) * 0.3).to(self.device)

    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        found = x
        for step in self.steps:
            found = STEPS[step](self, found, y)
            if isinstance(found, functional.AsyncCollectiveTensor):
                found = functional.wait_tensor(found)
        return found, found * 2

    def inputs(self, call: int) -> list[Tensor]:
        """Of as many rows in every rank, with what they may be padded to, or the sizes that there are."""
        rows = self.rows[call % len(self.rows)]
        torch.manual_seed(1000 * self.seed + 10 * call + dist.get_rank())
        drawn = [torch.randn(rows, WIDTH).to(self.device) for _ in range(2)]
        for one in drawn:
            if self.seed % 2 == 0:
                set_dim_buckets(one, {0: BUCKETS})
            else:
                set_dim_gears(one, {0: sorted(self.rows)})
        return drawn

    def __str__(self) -> str:
        return "\n".join(f"  {step}" for step in [f"rows {self.rows}", *self.steps])


if __name__ == "__main__":
    judging.main(Program)
