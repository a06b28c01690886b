"""Host time of one call of a captured graph, beside a bare replay, Dynamo alone, TorchAir and npugraph_ex.

    AIR_SIM_NOOP=1 TASK_QUEUE_ENABLE=0 air-sim run python benchmarks/hot_path.py --json results.json

Everything runs in one process, and the kernels of air-sim are no-ops: what is left is the host's work above
the ACL boundary.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from _measure import NOTE, Row, device_of, interleave, numbers, show, table, write
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import air_aclgraph
import air_config

_MODEL = """
class Block(nn.Module):
    def __init__(self, width, parameters):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(width)) for _ in range(parameters)])

    def forward(self, x):
        for weight in self.weights:
            x = x * weight
        return x


class Model(nn.Module):
    def __init__(self, width, shares):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width, share) for share in shares])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""


def model(parameters: int, blocks: int, width: int = 16) -> nn.Module:
    """`blocks` blocks with `parameters` parameters in all.

    Each model has code objects of its own: Dynamo looks its cache up by code, so two rows that shared one
    would pay for each other's guards.
    """
    share, rest = divmod(parameters, blocks)
    scope: dict[str, Any] = {"nn": nn, "torch": torch}
    exec(_MODEL, scope)
    made: nn.Module = scope["Model"](width, [share + (index < rest) for index in range(blocks)])
    return made


def ours(
    executables: list[air_aclgraph.Executable], settings: air_config.Settings | None = None
) -> Callable[..., Any]:
    """A backend that is AOTAutograd and this package's executor, nothing else."""

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        direct_call = air_aclgraph.DirectCall()

        def compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
            name = f"graph{len(executables)}"
            executable = air_aclgraph.compile_graph(gm, example_inputs, settings=settings, name=name)
            executables.append(executable)
            return direct_call.enter(executable)

        compiled = aot_autograd(
            fw_compiler=compiler, inference_compiler=compiler, keep_inference_input_mutations=True
        )(gm, example_inputs)
        return direct_call.around(compiled)

    return backend


def binding(device: str) -> air_config.Settings:
    """Settings under which an input whose address stays is bound instead of copied."""
    config = air_config.CompilerConfig()
    config.mode = "reduce-overhead"
    config.air.adaptive_slots = 3
    return air_config.resolve(config, air_config.Context(device=device))


def nothing(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """A backend that runs the graph once and returns that output ever after."""
    stored: list[Any] = []

    def run(*args: Any) -> Any:
        if not stored:
            stored.append(gm(*args))
        return stored[0]

    return run


def replaying(replay: Callable[[], Any]) -> Callable[..., Any]:
    """A backend that replays a graph and returns a stored output: the least any capture can cost."""

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        stored: list[Any] = []

        def run(*args: Any) -> Any:
            if not stored:
                stored.append(gm(*args))
            replay()
            return stored[0]

        return run

    return backend


def torchair(**switches: bool) -> Callable[..., Any]:
    """TorchAir in mode reduce-overhead."""
    package: Any = importlib.import_module("torchair")

    config = package.CompilerConfig()
    config.mode = "reduce-overhead"
    for name, value in switches.items():
        group = config.experimental_config if name == "frozen_parameter" else config.debug.aclgraph
        setattr(group, name, value)
    backend: Callable[..., Any] = package.get_npu_backend(compiler_config=config)
    return backend


def compiled(parameters: int, blocks: int, backend: Any, device: str, x: torch.Tensor) -> Callable[[], Any]:
    """A call of a fresh model compiled with `backend`."""
    function = torch.compile(model(parameters, blocks).to(device), backend=backend, dynamic=False)
    with torch.no_grad():
        for _ in range(6):
            function(x)
    return lambda: function(x)


def measure(parameters: int, blocks: int, device: str, peers: bool, rounds: int) -> dict[str, Any]:
    """Times all rows for one model size and prints them."""
    module = torch.get_device_module(device)
    x = torch.randn(4, 16, device=device)
    captured = model(parameters, blocks).to(device)
    graph = module.NPUGraph() if device == "npu" else module.CUDAGraph()
    with torch.no_grad():
        captured(x)
        with module.graph(graph):
            kept = captured(x)
    bare = Row("a  bare replay", graph.replay)
    dynamo = Row(
        "b  Dynamo, backend does nothing",
        compiled(parameters, blocks, nothing, device, x),
        after=graph.replay,
    )
    air = Row("c  air-aclgraph", compiled(parameters, blocks, ours([]), device, x))
    bound = ours([], binding(device))
    rows = [
        bare,
        dynamo,
        Row(
            "ab Dynamo, backend does a bare replay",
            compiled(parameters, blocks, replaying(graph.replay), device, x),
        ),
        air,
        Row("c+ air-aclgraph, input bound (adaptive_slots)", compiled(parameters, blocks, bound, device, x)),
    ]
    if peers and device == "npu":
        rows += [
            Row("d1 TorchAir reduce-overhead", compiled(parameters, blocks, torchair(), device, x)),
            Row(
                "d2 ... frozen_parameter",
                compiled(parameters, blocks, torchair(frozen_parameter=True), device, x),
            ),
            Row(
                "d3 ... frozen_parameter, clone_input off",
                compiled(parameters, blocks, torchair(frozen_parameter=True, clone_input=False), device, x),
            ),
            Row("e  npugraph_ex", compiled(parameters, blocks, "npugraph_ex", device, x)),
        ]
    with torch.no_grad():
        interleave(rows, rounds=rounds, device=device_of(device))
    base = bare.least_us + dynamo.least_us, bare.median_us + dynamo.median_us
    title = f"{blocks} blocks, {parameters} parameters, TASK_QUEUE_ENABLE={os.environ.get('TASK_QUEUE_ENABLE', '1')}"
    show(table(title, rows, base, f"base: a + b.  {NOTE if device == 'npu' else ''}"))
    del kept
    return {
        **numbers(rows),
        "c / (a + b)": {"least": air.least_us / base[0], "median": air.median_us / base[1]},
    }


def main() -> None:
    """Runs the comparison for the sizes asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--device", default="npu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--parameters", type=int, nargs="*", default=[288, 1000])
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    queue = os.environ.get("TASK_QUEUE_ENABLE", "1")
    for parameters in arguments.parameters:
        torch._dynamo.config.cache_size_limit = 64
        found = measure(parameters, 32, arguments.device, not arguments.no_peers, arguments.rounds)
        write(arguments.json, {f"hot path, {parameters} parameters, queue {queue}": found})


if __name__ == "__main__":
    main()
