"""Collectives over a process group of the host."""

from __future__ import annotations

import datetime
import gc
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from air_geir import compile_graph


def _graph(build: Any, x: torch.Tensor) -> torch.fx.GraphModule:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(build, tracing_mode="fake")(x)


def _worker(rank: int, port: int, program: Callable[[int, str], None]) -> None:
    gc.freeze()  # what other tests left is not collected in a fork: a process group waits there for its threads
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    program(rank, dist.group.WORLD.group_name)  # type: ignore[union-attr]  # initialised above
    dist.destroy_process_group()


def _reduce_and_trade(rank: int, name: str) -> None:
    ops = torch.ops._c10d_functional

    def reduce(x: torch.Tensor) -> Any:
        total = ops.wait_tensor(ops.all_reduce(x, "sum", name))
        highest = ops.wait_tensor(ops.all_reduce(x, "max", name))
        whole = ops.wait_tensor(ops.all_gather_into_tensor(x, 2, name))
        share = ops.wait_tensor(ops.reduce_scatter_tensor(x, "sum", 2, name))
        first = ops.wait_tensor(ops.broadcast(x, 1, name))
        traded = ops.wait_tensor(ops.all_to_all_single(x, [2, 2], [2, 2], name))
        mean = ops.wait_tensor(ops.all_reduce(x, "avg", name))
        return total, highest, whole, share, first, traded, mean

    def numbers(x: torch.Tensor) -> Any:
        return (ops.wait_tensor(ops.all_gather_into_tensor(x.sum(), 2, name)),)

    x = torch.arange(12.0).reshape(4, 3) + 100 * rank
    run = compile_graph(_graph(reduce, x), [x], engine="reference")
    found = run(x)
    a, b = (torch.arange(12.0).reshape(4, 3) + 100 * r for r in range(2))
    both = a + b
    expected = [
        both, b, torch.cat([a, b]), both[2 * rank : 2 * rank + 2], b,
        torch.cat([a[2 * rank : 2 * rank + 2], b[2 * rank : 2 * rank + 2]]), both / 2,
    ]  # fmt: skip
    for got, want in zip(found, expected, strict=True):
        torch.testing.assert_close(got, want)
    sums = compile_graph(_graph(numbers, x), [x], engine="reference")(x)
    torch.testing.assert_close(sums[0], torch.stack([a.sum(), b.sum()]))
    one_eager = reduce(x) if rank == 0 else run(x)  # the other rank is in the engine
    for got, want in zip(one_eager, expected, strict=True):
        torch.testing.assert_close(got, want)


def _need_different_results(rank: int, name: str) -> None:
    ops = torch.ops._c10d_functional

    def parted(x: torch.Tensor) -> Any:
        dropped = ops.wait_tensor(ops.all_gather_into_tensor(x, 2, name))
        given = torch.ones(2) if rank == 0 else x[0, :2] * 2
        total = ops.wait_tensor(ops.all_reduce(given, "sum", name))
        return total, dropped + 1 if rank == 0 else x * 3

    x = torch.arange(12.0).reshape(4, 3) + 100 * rank
    run = compile_graph(_graph(parted, x), [x], engine="reference")
    for call in range(2):
        for got, want in zip(run(x + call), parted(x + call), strict=True):
            torch.testing.assert_close(got, want)


@pytest.fixture
def port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_S25_two_processes_reduce_gather_scatter_and_trade(port: int) -> None:
    start_processes(_worker, (port, _reduce_and_trade), nprocs=2, start_method="fork")


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_S25_a_collective_runs_in_each_call_also_of_a_constant_and_where_its_result_is_dropped(
    port: int,
) -> None:
    start_processes(_worker, (port, _need_different_results), nprocs=2, start_method="fork")
