"""One rank dies where it is told to: while it captures, in a replay, or while Ascend IR is made.

The others are in the collective after it by then, or on their way there. They say what they were told. A replay of a
device runs no Python: the rank dies before its own, while the others are in theirs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor

from air_backend import get_npu_backend
from air_backend.demo import parallel
from air_geir import Context, Value, converts
from distributed.programs.ranks import CODE, DEAD, survive

CALLS = 3
PLACES = {"capture": "reduce-overhead", "replay": "reduce-overhead", "engine": "max-autotune"}


def die_if(wanted: bool) -> None:
    if wanted and dist.get_rank() == DEAD:
        os._exit(CODE)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=tuple(parallel.BACKENDS))
    parser.add_argument("--place", choices=tuple(PLACES), required=True)
    options = parser.parse_args(arguments)
    device = parallel.device_of(options.device)
    dist.init_process_group(parallel.BACKENDS[options.device])
    runs = 0

    def doubled(x: Tensor) -> Tensor:
        nonlocal runs
        runs += 1
        die_if(options.place == "capture" or (options.place == "replay" and runs == CALLS))
        return x * 2

    library = torch.library.Library("deaths", "DEF")
    library.define("doubled(Tensor x) -> Tensor")
    library.impl("doubled", doubled, "CompositeExplicitAutograd")
    torch.library.register_fake("deaths::doubled", torch.empty_like, lib=library)

    @converts("deaths.doubled.default")
    def converted(ctx: Context, x: Value) -> Value:
        """doubled(Tensor x) -> Tensor"""
        die_if(options.place == "engine")
        return ctx.emit("Mul", x, ctx.number(2, x.dtype), shape=x.shape)

    def total(x: Tensor) -> Tensor:
        group: Any = dist.group.WORLD
        summed: Tensor = functional.all_reduce(torch.ops.deaths.doubled(x), "sum", group)
        return summed + 1

    backend = get_npu_backend(compiler_config=parallel.config_of(PLACES[options.place]))
    compiled: Any = torch.compile(total, backend=backend, fullgraph=True, dynamic=False)
    x = torch.ones(4, device=device)

    def calls() -> None:
        for number in range(CALLS):
            die_if(options.place == "replay" and device.type != "cpu" and number == CALLS - 1)
            compiled(x).cpu()

    survive(calls) if device.type == "cpu" else calls()
    print("went on", flush=True)


if __name__ == "__main__":
    main()
