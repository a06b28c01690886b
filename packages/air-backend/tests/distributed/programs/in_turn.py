"""Collectives that a program starts itself, beside graphs that have collectives of the same group.

A broadcast is under way when a graph begins, and another one is started on a stream of its own as soon as the graph has
been launched. Run under torchrun; rank 0 prints a line for each mode, with how many calls were right.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from air_backend.demo import parallel
from distributed.programs.leaving import leave
from distributed.programs.setting import Setting

MODES = ("reduce-overhead", "max-autotune")
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
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=tuple(parallel.BACKENDS))
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    options = parser.parse_args(arguments)
    device = parallel.device_of(options.device)
    dist.init_process_group(parallel.BACKENDS[options.device])
    for mode in options.modes:
        torch._dynamo.reset()
        with torch.no_grad():
            right = right_calls(Setting(device, mode).compiled(exchanged), device)
        if dist.get_rank() == 0:
            print(f"{mode}: {right} of {CALLS} calls are right", flush=True)
    leave(device)


if __name__ == "__main__":
    main()
