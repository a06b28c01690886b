"""Host time of a call above the Graph Engine: each engine beside the extension, in one process and interleaved.

    air-sim run --set noop=1 python packages/air-geir/benchmarks/engines.py [--rounds 15] [--calls 200]

Thread CPU time, so that other programs of the machine do not count; the smallest of the rounds. On air-sim it is host
time above the ACL boundary and nothing else.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
import torch_npu  # noqa: F401  # registers the device

from air_config import CompilerConfig, Context, resolve
from air_geir.engines import Atc, GeSession, NpuDevice, TorchairExtension, bind, engine_options
from air_geir.ir import DataType, Graph, Placement, TensorDesc
from air_geir.program import ArgInput, GraphOutput, Program

ENGINES = (TorchairExtension, GeSession, Atc)


def program(inputs: int) -> Program:
    """A sum of many arguments: what a call costs grows with the number of its tensors."""
    graph = Graph("sum")
    desc = TensorDesc(DataType.FLOAT, (4, 4), placement=Placement.DEVICE)
    ports = [graph.data(f"x{at}", desc) for at in range(inputs)]
    total = ports[0]
    for port in ports[1:]:
        total = graph.add("Add", total, port, outputs=desc).output
    graph.output([total])
    return Program(graph, tuple(map(ArgInput, range(inputs))), (GraphOutput(0),), inputs)


def compiled(engine: Any, inputs: int) -> Callable[..., Any]:
    made = program(inputs)
    settings = resolve(CompilerConfig(), Context(device="npu"))
    return bind(made, engine().compile(made, engine_options(settings, made, NpuDevice.current())))


def cost_us(run: Callable[..., Any], given: list[torch.Tensor], calls: int) -> float:
    start = time.thread_time()
    for _ in range(calls):
        run(*given)
    spent = (time.thread_time() - start) / calls * 1e6
    torch.get_device_module("npu").synchronize()
    return spent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=200)
    asked = parser.parse_args()
    for inputs in (2, 50):
        given = [torch.ones(4, 4, device="npu") for _ in range(inputs)]
        runs = {engine.name: compiled(engine, inputs) for engine in ENGINES}
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(asked.rounds):
            for name, run in runs.items():
                best[name] = min(best[name], cost_us(run, given, asked.calls))
        for name, cost in best.items():
            ratio = cost / best[TorchairExtension.name]
            print(f"{inputs:3} tensors  {name:20} {cost:8.1f} us  {ratio:5.2f} of the extension")


if __name__ == "__main__":
    main()
