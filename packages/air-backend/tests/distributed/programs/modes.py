"""Programs that count right calls in each mode: run under torchrun, rank 0 prints a line for each."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from air_backend.demo import parallel
from distributed.programs.leaving import leave
from distributed.programs.setting import Setting

MODES = ("reduce-overhead", "max-autotune")


def count_in_each(right_calls: Callable[[Setting], int], calls: int, arguments: Sequence[str] | None) -> None:
    """Joins the other ranks, counts, prints and leaves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=tuple(parallel.BACKENDS))
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    options = parser.parse_args(arguments)
    device = parallel.device_of(options.device)
    dist.init_process_group(parallel.BACKENDS[options.device])
    for mode in options.modes:
        torch._dynamo.reset()
        with torch.no_grad():
            right = right_calls(Setting(device, mode))
        if dist.get_rank() == 0:
            print(f"{mode}: {right} of {calls} calls are right", flush=True)
    leave(device)
