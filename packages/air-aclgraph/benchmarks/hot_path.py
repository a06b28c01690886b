"""Host time of one call of a captured graph, beside a bare replay, Dynamo alone, TorchAir and npugraph_ex.

    AIR_SIM_NOOP=1 TASK_QUEUE_ENABLE=0 air-sim run python benchmarks/hot_path.py --json results.json

Everything runs in one process, and the kernels of air-sim are no-ops: what is left is the host's work above
the ACL boundary.  Each row is the mean of several models, which all but TorchAir's rows share, with their guards.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

import torch
from _measure import NOTE, Mean, Row, device_of, interleave, numbers, show, table, write
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import air_aclgraph
import air_config

DYNAMO: Final = "b  Dynamo, backend does nothing"
AIR: Final = "c  air-aclgraph"

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


@dataclass(frozen=True)
class Way:
    """A row of the table: the backend, and what follows each call."""

    name: str
    backend: Callable[..., Any]
    after: Callable[[], Any] = lambda: None


def ways_of(device: str, replay: Callable[[], Any]) -> list[Way]:
    """What one model is compared in."""
    return [
        Way(DYNAMO, nothing, after=replay),
        Way("ab Dynamo, backend does a bare replay", replaying(replay)),
        Way(AIR, ours([])),
        Way("c+ air-aclgraph, input bound (adaptive_slots)", ours([], binding(device))),
    ]


def of_one_model(
    parameters: int, blocks: int, device: str, x: torch.Tensor, ways: Sequence[Way]
) -> list[Row]:
    """One row for each way to compile the graph of one model, whose guards they share.

    Two models lie elsewhere in memory, and that alone moves the time of their guards by a fifth.  So a model is
    compiled once, and what Dynamo calls is put in its place before the calls of a row.
    """
    made: list[Any] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        made.extend(torch._dynamo.disable(way.backend(gm, example_inputs)) for way in ways)
        return made[0]

    module = model(parameters, blocks).to(device)
    function = torch.compile(module, backend=backend, dynamic=False)
    with torch.no_grad():
        function(x)
    scope: dict[str, Any] = type(module).forward.__globals__
    (called,) = [name for name in scope if name.startswith("__compiled_fn")]

    @contextmanager
    def with_call(call: Any) -> Iterator[None]:
        scope[called] = call
        yield

    rows = []
    for way, call in zip(ways, made, strict=True):
        row = Row(way.name, partial(function, x), around=partial(with_call, call), after=way.after)
        with torch.no_grad(), row.around():
            for _ in range(12):  # until outputs are lent
                row.call()
        rows.append(row)
    return rows


def peers_of(parameters: int, blocks: int, device: str, x: torch.Tensor) -> list[Row]:
    """TorchAir's ways, with a model each."""
    asked = {
        "d1 TorchAir reduce-overhead": torchair(),
        "d2 ... frozen_parameter": torchair(frozen_parameter=True),
        "d3 ... frozen_parameter, clone_input off": torchair(frozen_parameter=True, clone_input=False),
        "e  npugraph_ex": "npugraph_ex",
    }
    return [Row(name, compiled(parameters, blocks, backend, device, x)) for name, backend in asked.items()]


def measure(
    parameters: int, blocks: int, device: str, *, peers: bool, rounds: int, models: int
) -> dict[str, Any]:
    """Times all rows for one model size, with so many models each, and prints them."""
    module = torch.get_device_module(device)
    x = torch.randn(4, 16, device=device)
    captured = model(parameters, blocks).to(device)
    graph = module.NPUGraph() if device == "npu" else module.CUDAGraph()
    with torch.no_grad():
        captured(x)
        with module.graph(graph):
            kept = captured(x)
    bare = Row("a  bare replay", graph.replay)
    rows: dict[str, list[Row]] = {}
    for _ in range(models):
        made = of_one_model(parameters, blocks, device, x, ways_of(device, graph.replay))
        if peers and device == "npu":
            made += peers_of(parameters, blocks, device, x)
        for row in made:
            rows.setdefault(row.name, []).append(row)
    with torch.no_grad():
        interleave([bare, *chain(*rows.values())], rounds=rounds, device=device_of(device))
    means = {name: Mean.of(timed) for name, timed in rows.items()}
    dynamo, air = means[DYNAMO], means[AIR]
    base = bare.least_us + dynamo.least_us, bare.median_us + dynamo.median_us
    title = f"{blocks} blocks, {parameters} parameters, TASK_QUEUE_ENABLE={os.environ.get('TASK_QUEUE_ENABLE', '1')}"
    note = f"base: a + b, each the mean of {models} models.  {NOTE if device == 'npu' else ''}"
    shown: list[Row | Mean] = [bare, *means.values()]
    show(table(title, shown, base, note))
    del kept
    return {
        **numbers(shown),
        "c / (a + b)": {"least": air.least_us / base[0], "median": air.median_us / base[1]},
    }


def main() -> None:
    """Runs the comparison for the sizes asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--device", default="npu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--parameters", type=int, nargs="*", default=[288, 1000])
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    queue = os.environ.get("TASK_QUEUE_ENABLE", "1")
    for parameters in arguments.parameters:
        torch._dynamo.config.cache_size_limit = 64
        found = measure(
            parameters, 32, arguments.device,
            peers=not arguments.no_peers, rounds=arguments.rounds, models=arguments.models,
        )  # fmt: skip
        write(arguments.json, {f"hot path, {parameters} parameters, queue {queue}": found})


if __name__ == "__main__":
    main()
