"""Every collective that can be compiled, and a model split over the ranks, in every mode; then a rank dies.

Run under torchrun. `--only` adds cases of distributed tensors (`dtensor_cases`), by parts of their names. Each
collective is a function of a tensor that differs between the ranks; all of them in one graph are compared with their
eager forms three times with new values, so that a capture which froze anything is found out. `--device npu` takes
HCCL. In the end one rank leaves between two calls without a word, as a killed process does, and the others go on to
the next call. On gloo they say what they were told there, and only then let torchrun end them: it notices the death
as well, and whoever of the two is first would decide what can be seen.
"""

from __future__ import annotations

import argparse
import functools
import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor

from air_backend import get_npu_backend, patch_for_hcom
from air_backend.demo import parallel
from distributed.programs import parallel_models

MODES = ("run_eagerly", "reduce-overhead", "max-autotune")
ROWS = 4
DEAD, CODE = 1, 7


def functional_sum(x: Tensor) -> Tensor:
    total: Tensor = functional.all_reduce(x * 2, "sum", dist.group.WORLD)  # type: ignore[arg-type]  # there is a group
    return total.relu()


def functional_average(x: Tensor) -> Tensor:
    mean: Tensor = functional.all_reduce(x * 2, "avg", dist.group.WORLD)  # type: ignore[arg-type]  # there is a group
    return mean + 1


def functional_broadcast(x: Tensor) -> Tensor:
    sent: Tensor = functional.broadcast(x + 1, 1, dist.group.WORLD)  # type: ignore[arg-type]  # there is a group
    return sent * 2


def reduce_in_place(x: Tensor) -> Tensor:
    y = x + 1
    dist.all_reduce(y)
    return y.relu()


def maximum_in_place(x: Tensor) -> Tensor:
    y = x + 1
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    return y * 2


def gather_into(x: Tensor) -> Tensor:
    y = x.new_empty(x.shape[0] * dist.get_world_size(), x.shape[1])
    dist.all_gather_into_tensor(y, x * 2)
    return y + 1


def gather_list(x: Tensor) -> Tensor:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x * 2)
    return torch.cat(parts, 1)


def scatter_sum(x: Tensor) -> Tensor:
    y = x.new_empty(x.shape[0] // dist.get_world_size(), x.shape[1])
    dist.reduce_scatter_tensor(y, x * 2)
    return y + 1


def exchange(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x * 2)
    return y + 1


def broadcast_in_place(x: Tensor) -> Tensor:
    y = x + 1
    dist.broadcast(y, src=1)
    return y * 2


def exchange_lists(x: Tensor) -> Tensor:
    ranks = dist.get_world_size()
    sent = [x[:2] * (other + 1) for other in range(ranks)]
    received = [x.new_empty(2, x.shape[1]) for _ in range(ranks)]
    dist.all_to_all(received, sent)
    return torch.cat(received) + 1


CASES: tuple[Callable[[Tensor], Tensor], ...] = (
    functional_sum,
    functional_average,
    functional_broadcast,
    reduce_in_place,
    maximum_in_place,
    gather_into,
    gather_list,
    scatter_sum,
    exchange,
    broadcast_in_place,
    exchange_lists,
)


if torch.__version__ < "2.12":  # gloo of torch 2.11 has no all_to_all of lists
    CASES = tuple(case for case in CASES if case is not exchange_lists)


def everything(x: Tensor) -> dict[str, Tensor]:
    """All cases in one graph."""
    return {case.__name__: case(x) for case in CASES}


def compare(mode: str, device: torch.device) -> None:
    backend = get_npu_backend(compiler_config=parallel.config_of(mode))
    compiled: Any = torch.compile(everything, backend=backend, fullgraph=True, dynamic=False)
    for step in range(3):
        torch.manual_seed(10 * step + dist.get_rank())
        x = torch.randn(ROWS, 3).to(device)
        expected = everything(x)
        for name, ours in compiled(x).items():
            described = functools.partial("{0} {1}: {2}".format, name, mode)
            torch.testing.assert_close(ours, expected[name], msg=described)


def total(x: Tensor) -> Tensor:
    summed: Tensor = functional.all_reduce(x * 2, "sum", dist.group.WORLD)  # type: ignore[arg-type]  # there is a group
    return summed + 1


def die(device: torch.device) -> None:
    """One rank leaves after two calls."""
    backend = get_npu_backend(compiler_config=parallel.config_of("reduce-overhead"))
    compiled: Any = torch.compile(total, backend=backend, fullgraph=True, dynamic=False)
    x = torch.ones(4, device=device)
    for _ in range(2):
        print(compiled(x).cpu().tolist(), flush=True)
    if dist.get_rank() == DEAD:
        os._exit(CODE)
    if device.type == "cpu":
        survive(lambda: compiled(x))
    else:
        compiled(x).cpu()
    print("went on", flush=True)


def survive(call: Callable[[], object]) -> None:
    """Makes a call that fails, prints what it raised, and waits for torchrun to end this process."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    try:
        call()
    except RuntimeError as error:
        print(f"told: {error}", flush=True)
        while not asked:
            time.sleep(0.05)
        raise


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=("cpu", "npu"))
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument(
        "--only", nargs="+", default=(), help="parts of the names of cases of distributed tensors"
    )
    options = parser.parse_args(arguments)
    kind, modes = options.device, options.modes
    warnings.filterwarnings("ignore", category=FutureWarning)
    device = parallel.device_of(kind)
    dist.init_process_group(parallel.BACKENDS[kind])
    parallel_models.all_equal(device, parallel_models.MODES, ["dtensor"], options.only)
    patch_for_hcom()
    for mode in modes:
        compare(mode, device)
        if dist.get_rank() == 0:
            print(f"{len(CASES)} collectives {mode} equal", flush=True)
    for mode, worst in parallel.compare(device, modes=modes).items():
        if dist.get_rank() == 0:
            print(f"llama {mode} equal ({worst:.1e})", flush=True)
    die(device)
    if kind == "npu":
        torch.accelerator.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
