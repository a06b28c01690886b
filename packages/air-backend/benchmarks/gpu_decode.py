"""A decode step on a CUDA device: AIR beside torch's own graph backends and a bare replay.

    python gpu_decode.py --json results.json
    python gpu_decode.py --batches 1 8 --layers 4          a smaller model

For each batch size: host time of a call (the call returns while the device works) and latency (until the device
is done), interleaved in one process, each output compared with eager first.  The rows:

    eager                      the module itself
    bare replay                `CUDAGraph.replay()` of one capture of it, and nothing else
    copies + bare replay       the same after copying token and position: the least a capture can cost
    AIR, kernels of ATen       torch.compile(backend="air", options={"mode": "reduce-overhead"})
    AIR, kernels of Inductor   the same with air.kernels = "inductor"
    Inductor                   torch.compile()
    max-autotune               torch.compile(mode="max-autotune")
    reduce-overhead            torch.compile(mode="reduce-overhead")
    cudagraphs                 torch.compile(backend="cudagraphs")
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import itertools
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from llama_shaped import Shape
from torch import Tensor, nn

from air_backend.errors import GraphSplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "air-aclgraph" / "benchmarks"))

from _measure import show, write

_COPIES: Final = itertools.count()


@dataclass
class Timed:
    """One way to run a step, and what it took in seconds."""

    name: str
    step: Callable[[Tensor, Tensor], Any]
    host: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, float]:
        return {
            "host_us": statistics.median(self.host) * 1e6,
            "host_least_us": min(self.host) * 1e6,
            "latency_us": statistics.median(self.latency) * 1e6,
            "latency_least_us": min(self.latency) * 1e6,
        }


def decoder(
    shape: Shape, batch: int, weights: dict[str, Tensor] | None, device: str, dtype: torch.dtype
) -> nn.Module:
    """A decoder with code objects and caches of its own; `weights` are shared, not copied.

    Dynamo looks its cache up by code: rows that shared it would pay for each other's guards.
    """
    name = f"llama_shaped_{next(_COPIES)}"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("llama_shaped.py"))
    if spec is None or spec.loader is None:
        raise RuntimeError("llama_shaped.py is not beside this script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    with torch.device(device):
        made: nn.Module = module.Decoder(shape, batch)
    made = made.to(dtype).eval().requires_grad_(False)
    if weights is not None:
        made.load_state_dict(weights, assign=True)
    return made


def bare(
    module: nn.Module, token: Tensor, position: Tensor
) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """A bare replay of one capture of a step, and the same after copying its inputs."""
    inputs = token.clone(), position.clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out: Tensor = module(*inputs)

    def replay(token: Tensor, position: Tensor) -> Tensor:
        graph.replay()
        return out

    replay.keeps = module  # type: ignore[attr-defined]  # the graph reads the memory of its weights and caches

    def with_copies(token: Tensor, position: Tensor) -> Tensor:
        inputs[0].copy_(token, non_blocking=True)
        inputs[1].copy_(position, non_blocking=True)
        graph.replay()
        return out

    return replay, with_copies


def marking(step: Callable[..., Any]) -> Callable[..., Any]:
    """A call of `reduce-overhead` has to say that the outputs of the last one are no longer needed."""

    def call(token: Tensor, position: Tensor) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return step(token, position)

    return call


def rows_of(
    shape: Shape, batch: int, device: str, dtype: torch.dtype, token: Tensor, position: Tensor
) -> list[Timed]:
    """Every way to run the step, compiled and captured."""
    eager = decoder(shape, batch, None, device, dtype)
    weights = eager.state_dict()

    def fresh() -> nn.Module:
        return decoder(shape, batch, weights, device, dtype)

    replay, with_copies = bare(fresh(), token, position)
    air = {"backend": "air", "dynamic": False}
    rows = [
        Timed("eager", eager),
        Timed("bare replay", replay),
        Timed("copies + bare replay", with_copies),
        Timed("AIR, kernels of ATen", torch.compile(fresh(), options={"mode": "reduce-overhead"}, **air)),
        Timed(
            "AIR, kernels of Inductor",
            torch.compile(fresh(), options={"mode": "reduce-overhead", "air.kernels": "inductor"}, **air),
        ),
        Timed("Inductor", torch.compile(fresh(), dynamic=False)),
        Timed("max-autotune", marking(torch.compile(fresh(), mode="max-autotune", dynamic=False))),
        Timed("reduce-overhead", marking(torch.compile(fresh(), mode="reduce-overhead", dynamic=False))),
        Timed("cudagraphs", torch.compile(fresh(), backend="cudagraphs", dynamic=False)),
    ]
    for row in rows:
        for _ in range(5):
            row.step(token, position)
    return rows


def check(rows: list[Timed], token: Tensor, position: Tensor) -> None:
    """Every row computes what eager computes."""
    expected = rows[0].step(token, position).clone()
    for row in rows[1:]:
        torch.testing.assert_close(
            row.step(token, position),
            expected,
            rtol=3e-2,
            atol=3e-2,
            msg=lambda text, row=row: f"{row.name}: {text}",
        )


def interleave(rows: list[Timed], token: Tensor, position: Tensor, rounds: int, burst: int) -> None:
    """Times bursts of every row in turn."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for row in rows:
                for _ in range(burst):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    row.step(token, position)
                    row.host.append(time.perf_counter() - start)
                    torch.cuda.synchronize()
                    row.latency.append(time.perf_counter() - start)
    finally:
        gc.enable()


def table(title: str, rows: list[Timed]) -> str:
    """Host time and latency, each with its ratio to the bare replay."""
    base = next(row for row in rows if row.name == "bare replay").as_dict()
    lines = [title, "", f"{'median us':<28}{'host':>10}{'x bare':>8}{'latency':>10}{'x bare':>8}"]
    for row in rows:
        found = row.as_dict()
        lines.append(
            f"{row.name:<28}{found['host_us']:>10.1f}{found['host_us'] / base['host_us']:>8.2f}"
            f"{found['latency_us']:>10.1f}{found['latency_us'] / base['latency_us']:>8.2f}"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    """Times every batch size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--layers", type=int, default=Shape.layers)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--burst", type=int, default=10)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error(
            "no CUDA device: this benchmark runs on a GPU; hot_path.py measures host time without one"
        )
    logging.disable(logging.INFO)
    warnings.simplefilter("error", GraphSplit)  # what is timed is one capture
    torch._dynamo.config.cache_size_limit = 64
    shape, device, dtype = Shape(layers=arguments.layers), "cuda", torch.bfloat16
    name = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    for batch in arguments.batches:
        token = torch.full((batch, 1), 7, device=device)
        position = torch.tensor([9], device=device)
        with torch.no_grad():
            rows = rows_of(shape, batch, device, dtype, token, position)
            check(rows, token, position)
            interleave(rows, token, position, arguments.rounds, arguments.burst)
        show(table(f"decode step, {shape.layers} layers, batch {batch}, {name}", rows))
        write(
            arguments.json,
            {f"decode, {shape.layers} layers, batch {batch}, {name}": {r.name: r.as_dict() for r in rows}},
        )
        del rows
        torch._dynamo.reset()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
