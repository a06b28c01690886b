"""Host time of a call above the Graph Engine: each engine beside the extension, in one process and interleaved.

    air-sim run --set noop=1 python packages/air-geir/benchmarks/engines.py [--rounds 200] [--calls 20]

Thread CPU time, so that other programs of the machine do not count: the smallest of the rounds, and the median of the
ratios that rounds give. On air-sim it is host time above the ACL boundary and nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch_npu  # noqa: F401  # registers the device

from air_config import CompilerConfig, Context, resolve
from air_geir.engines import Atc, GeSession, NpuDevice, TorchairExtension, bind, engine_options
from air_geir.ir import DataType, Graph, Placement, TensorDesc, symbol
from air_geir.program import ArgInput, GraphOutput, Program, SymbolSource

ENGINES = (TorchairExtension, GeSession, Atc)


def program(inputs: int, is_open: bool) -> Program:
    """A sum of many arguments: what a call costs grows with the number of its tensors."""
    graph = Graph("sum")
    desc = TensorDesc(DataType.FLOAT, (symbol("s0") if is_open else 4, 4), placement=Placement.DEVICE)
    ports = [graph.data(f"x{at}", desc) for at in range(inputs)]
    total = ports[0]
    for port in ports[1:]:
        total = graph.add("Add", total, port, outputs=desc).output
    graph.output([total])
    arguments = tuple(map(ArgInput, range(inputs)))
    return Program(graph, arguments, (GraphOutput(0),), inputs, symbols={"s0": SymbolSource(0, 0)})


def compiled(engine: Any, inputs: int, is_open: bool) -> Callable[..., Any]:
    made = program(inputs, is_open)
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
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=20)
    asked = parser.parse_args()
    for inputs, is_open in ((2, False), (50, False), (2, True), (50, True)):
        given = [torch.ones(4, 4, device="npu") for _ in range(inputs)]
        runs = {engine.name: compiled(engine, inputs, is_open) for engine in ENGINES}
        costs: dict[str, list[float]] = {name: [] for name in runs}
        for round_ in range(asked.rounds):
            for name in list(runs)[:: -1 if round_ % 2 else 1]:
                costs[name].append(cost_us(runs[name], given, asked.calls))
        for name, found in costs.items():
            usual = costs[TorchairExtension.name]
            ratio = statistics.median(one / other for one, other in zip(found, usual, strict=True))
            sizes = "open" if is_open else "fixed"
            print(
                f"{inputs:3} tensors of {sizes:5} sizes  {name:20} {min(found):8.1f} us  {ratio:5.2f} of the extension"
            )


if __name__ == "__main__":
    main()
