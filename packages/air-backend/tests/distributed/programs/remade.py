"""Process groups that are destroyed and made anew between the calls of one compiled function, which names its group.

The name means all ranks, then the first rank alone, then all ranks again. Run under torchrun; rank 0 prints a line for
each mode, with how many of its calls were right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor

from air_backend.demo import parallel
from distributed.programs.modes import MODES, count_in_each
from distributed.programs.setting import CALLS

NAME = "1"
"""What torch calls the first group beside that of all ranks."""


def summed_and_averaged(x: Tensor) -> tuple[Tensor, Tensor]:
    group: Any = NAME
    total: Tensor = functional.all_reduce(x * 2, "sum", group)
    average: Tensor = functional.all_reduce(x * 3, "avg", group)
    return total + 1, average + 1


def join(backend: str, times: int) -> None:
    """Joins all ranks, the next time by another part of the store."""
    store = torch._C._distributed_c10d.PrefixStore(str(times), dist.distributed_c10d._get_default_store())
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)


def right_calls(call: Callable[[Tensor], tuple[Tensor, Tensor]], device: torch.device, mode: str) -> int:
    """How many calls of rank 0 gave the sum and the average over those that the name means then."""
    right = 0
    ranks = range(dist.get_world_size())
    for times, members in enumerate((list(ranks), [0], list(ranks))):
        group = dist.new_group(members)
        if dist.get_rank() in members:
            assert group.group_name == NAME
            for number in range(CALLS):
                values = torch.arange(4.0, device=device) + number
                total, average = call(values)
                right += torch.equal(total, 2 * len(members) * values + 1) and torch.equal(
                    average, 3 * values + 1
                )
        dist.barrier()
        if device.type != "cpu":
            torch.accelerator.synchronize()
        join(parallel.BACKENDS[device.type], 10 * MODES.index(mode) + times)
    return right


def main(arguments: Sequence[str] | None = None) -> None:
    count_in_each(
        lambda setting: right_calls(setting.compiled(summed_and_averaged), setting.device, setting.mode),
        3 * CALLS,
        arguments,
    )


if __name__ == "__main__":
    main()
