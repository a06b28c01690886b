"""Collectives that are under way when a compiled graph begins, or when it ends.

Rank 0 comes late to each of them, so that a graph which does not wait reads, or copies, what is not there yet. Run
under torchrun; rank 0 prints a line for each mode, with how many calls were right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from distributed.programs.modes import count_in_each
from distributed.programs.setting import CALLS, Setting

SIZE: Final = 300_000
LATE_S: Final = 0.2
functional: Final = torch.ops._c10d_functional


def started(x: Tensor) -> Tensor:
    world: Any = dist.group.WORLD
    total: Tensor = functional.all_reduce(x, "sum", world.group_name)
    return total


def twice_when_there(started_outside: Tensor) -> Tensor:
    there: Tensor = functional.wait_tensor(started_outside)
    return there * 2


def started_before_a_graph_break(x: Tensor) -> Tensor:
    total = started(x * 1)
    torch._dynamo.graph_break()
    return twice_when_there(total)


def waited_for_inside(setting: Setting) -> Callable[[Tensor], Tensor]:
    compiled = setting.compiled(twice_when_there)
    return lambda x: compiled(started(x))


def waited_for_after_a_break(setting: Setting) -> Callable[[Tensor], Tensor]:
    compiled: Callable[[Tensor], Tensor] = setting.compiled(started_before_a_graph_break, fullgraph=False)
    return compiled


def waited_for_by_the_caller(setting: Setting) -> Callable[[Tensor], Tensor]:
    compiled = setting.compiled(lambda x: started(x * 1))
    return lambda x: twice_when_there(compiled(x))


def inside_a_distributed_tensor(setting: Setting) -> Callable[[Tensor], Tensor]:
    compiled, mesh = setting.compiled(lambda whole: whole * 2), setting.mesh

    def call(x: Tensor) -> Tensor:
        shares = distribute_tensor(x[: SIZE // 2], mesh, [Shard(0)], src_data_rank=None)
        late(setting.rank)
        found: Tensor = compiled(shares.redistribute(placements=[Replicate()], async_op=True)).to_local()
        return found

    return call


def late(rank: int) -> None:
    if rank == 0:
        time.sleep(LATE_S)


SUMS: Final = (waited_for_inside, waited_for_after_a_break, waited_for_by_the_caller)


def right_calls(setting: Setting) -> int:
    right = 0
    values = [torch.arange(float(SIZE), device=setting.device) + call for call in range(CALLS)]
    for case in SUMS:
        call = case(setting)
        for value in values:
            late(setting.rank)
            right += torch.equal(call(value + setting.rank), 2 * (2 * value + 1))
    call = inside_a_distributed_tensor(setting)
    return right + sum(torch.equal(call(value), 2 * value[: SIZE // 2]) for value in values)


def main(arguments: Sequence[str] | None = None) -> None:
    count_in_each(right_calls, (len(SUMS) + 1) * CALLS, arguments)


if __name__ == "__main__":
    main()
