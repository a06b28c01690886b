"""Collectives that a program starts itself, beside graphs that have collectives of the same group.

A broadcast is under way when a graph begins, and another one is started on a stream of its own as soon as the graph has
been launched. Run under torchrun; rank 0 prints a line for each mode, with how many calls were right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from distributed.programs.modes import count_in_each

CALLS = 40


def exchanged(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x * 2)
    return out + 1


def right_calls(graph: Callable[[Tensor], Tensor], device: torch.device) -> int:
    """How many calls gave what they give alone."""
    rank, right = dist.get_rank(), 0
    side = torch.Stream(device)
    for call in range(CALLS):
        values = torch.arange(24.0, device=device).view(4, 6) + call
        before, after = values + rank, values * (rank + 1)
        torch.accelerator.synchronize()
        first = dist.broadcast(before, 0, async_op=True)
        result = graph(values + rank)
        with side:
            second = dist.broadcast(after, 0, async_op=True)
        assert first is not None
        assert second is not None
        first.wait()
        second.wait()
        parts = [(values + one)[2 * rank : 2 * rank + 2] for one in range(2)]
        expected = torch.cat(parts) * 2 + 1
        right += all(map(torch.equal, (result, before, after), (expected, values, values)))
    return right


def main(arguments: Sequence[str] | None = None) -> None:
    count_in_each(lambda setting: right_calls(setting.compiled(exchanged), setting.device), CALLS, arguments)


if __name__ == "__main__":
    main()
