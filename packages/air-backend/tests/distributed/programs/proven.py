"""A compiled function with a collective whose passes are proven in one rank alone.

Run under torchrun; rank 0 prints a line for each mode, with how many calls were right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor

from air_backend import get_npu_backend
from air_backend.demo.parallel import config_of
from distributed.programs.modes import count_in_each
from distributed.programs.setting import CALLS, Setting


def summed(x: Tensor) -> Tensor:
    world: Any = dist.group.WORLD
    total: Tensor = functional.all_reduce((x * 2 + 1).neg(), "sum", world)
    return total.abs() + 1


def right_calls(setting: Setting) -> int:
    config = config_of(setting.mode)
    config.set("air.verify", setting.rank == 0)
    compiled: Any = torch.compile(summed, backend=get_npu_backend(compiler_config=config), dynamic=False)
    right = 0
    for call in range(CALLS):
        x = torch.arange(12.0, device=setting.device).view(4, 3) + call
        right += torch.equal(compiled(x + setting.rank), 4 * x + 5)
    return right


def main(arguments: Sequence[str] | None = None) -> None:
    count_in_each(right_calls, CALLS, arguments)


if __name__ == "__main__":
    main()
