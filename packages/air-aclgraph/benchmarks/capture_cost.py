"""What a capture costs: time against the number of operators, memory of eight shapes against the largest.

air-sim run python benchmarks/capture_cost.py --json results.json        (or --device cpu)
"""

from __future__ import annotations

import argparse
import logging
import time
from typing import Any

import torch
from _measure import show, write
from torch import Tensor
from torch.fx import Graph, GraphModule

import air_aclgraph
from air_aclgraph import AcceleratorRuntime, HostRuntime, Runtime


def chain(operators: int) -> GraphModule:
    """A graph of that many additions."""
    graph = Graph()
    value = graph.placeholder("x")
    for _ in range(operators):
        value = graph.call_function(torch.ops.aten.add.Tensor, (value, 1))
    graph.output((value,))
    return GraphModule(torch.nn.Module(), graph)


def fresh(device: str) -> Runtime:
    """A runtime with a pool of its own."""
    return HostRuntime() if device == "cpu" else AcceleratorRuntime(device)


def capture_time(device: str) -> dict[str, float]:
    """Microseconds per operator of a capture, the eager warm-up included."""
    found = {}
    for operators in (100, 1_000, 10_000):
        x = torch.zeros(16, 16, device=device)
        run = air_aclgraph.compile_graph(chain(operators), [x], runtime=fresh(device))
        start = time.perf_counter()
        run(x)
        seconds = time.perf_counter() - start
        found[f"{operators} operators, us each"] = seconds / operators * 1e6
        show(
            f"capture of {operators:>6} operators: {seconds * 1e3:9.1f} ms, {seconds / operators * 1e6:6.1f} us each"
        )
        run.close()
    return found


def pool(device: str) -> dict[str, Any]:
    """Pool bytes of the largest shape alone, and of eight shapes captured from the largest down."""

    def block(x: Tensor, up: Tensor, down: Tensor) -> tuple[Tensor, ...]:
        for _ in range(4):
            x = x + torch.nn.functional.silu(x @ up) @ down
        return (x.sum(-1),)

    up, down = torch.randn(256, 1024, device=device), torch.randn(1024, 256, device=device)
    found: dict[str, Any] = {}
    for rows in ((4096,), (4096, 3584, 3072, 2560, 2048, 1536, 1024, 512)):
        runtime = fresh(device)
        gm = torch.fx.experimental.proxy_tensor.make_fx(block, tracing_mode="symbolic")(
            torch.randn(rows[0], 256, device=device), up, down
        )
        run = air_aclgraph.compile_graph(
            gm, [torch.randn(7, 256, device=device), up, down], runtime=runtime, static_inputs=[1, 2]
        )
        for count in rows:
            x = torch.randn(count, 256, device=device)
            torch.testing.assert_close(run(x, up, down)[0], block(x, up, down)[0], rtol=1e-2, atol=1e-1)
        found[f"{len(rows)} shapes"] = runtime.pool_nbytes()
        run.close()
    found["ratio"] = found["8 shapes"] / found["1 shapes"]
    show(f"pool bytes: {found}")
    return found


def main() -> None:
    """Runs both measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--device", default="npu")
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    with torch.no_grad():
        write(arguments.json, {f"capture time, {arguments.device}": capture_time(arguments.device)})
        write(arguments.json, {f"pool, {arguments.device}": pool(arguments.device)})


if __name__ == "__main__":
    main()
