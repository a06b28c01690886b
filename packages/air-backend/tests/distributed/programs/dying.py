"""A rank that dies between two calls of a compiled function with a collective: run under torchrun.

Rank 1 leaves without a word, as a process does that is killed; the others go on to the next call.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as functional

from air_backend import get_npu_backend
from air_backend.demo import parallel

DEAD, CODE = 1, 7


def total(x: Tensor) -> Tensor:
    summed: Tensor = functional.all_reduce(x * 2, "sum", dist.group.WORLD)  # type: ignore[arg-type]  # there is a group
    return summed + 1


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=("cpu", "npu"))
    kind = parser.parse_args(arguments).device
    device = parallel.device_of(kind)
    dist.init_process_group(parallel.BACKENDS[kind])
    backend = get_npu_backend(compiler_config=parallel.config_of("reduce-overhead"))
    compiled: Any = torch.compile(total, backend=backend, fullgraph=True, dynamic=False)
    x = torch.ones(4, device=device)
    for _ in range(2):
        print(compiled(x).cpu().tolist(), flush=True)
    if dist.get_rank() == DEAD:
        os._exit(CODE)
    print(compiled(x).cpu().tolist(), flush=True)
    print("went on", flush=True)


if __name__ == "__main__":
    main()
