"""For benchmarks on a CUDA device: ways to run one thing, timed in turn by the clock, with what is 1.00 for each.

Host time is until the call returns while the device works; latency is until the device is done. Each burst begins with
an idle device.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from air_backend.errors import GraphSplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "air-aclgraph" / "benchmarks"))

from _measure import show, write

__all__ = [
    "BARE",
    "COMPILED",
    "Timed",
    "bare",
    "begin",
    "check",
    "compiled",
    "interleave",
    "show",
    "table",
    "write",
]

BARE: Final = "bare replay"
ROUNDING: Final = 0.05
"""So far a row may be off, of the largest value, also where eager is nearer."""
AIR: Final = {"backend": "air", "dynamic": False}
#: What is given to torch.compile, for each way that compiles.
COMPILED: Final[dict[str, dict[str, Any]]] = {
    "AIR, kernels of ATen": {**AIR, "options": {"mode": "reduce-overhead"}},
    "AIR, kernels of Inductor": {**AIR, "options": {"mode": "reduce-overhead", "air.kernels": "inductor"}},
    "AIR, products side by side": {
        **AIR,
        "options": {
            "mode": "reduce-overhead",
            "air.kernels": "inductor",
            "air.products_side_by_side": True,
        },
    },
    "Inductor": {"dynamic": False},
    "max-autotune": {"dynamic": False, "mode": "max-autotune"},
    "reduce-overhead": {"dynamic": False, "mode": "reduce-overhead"},
    "cudagraphs": {"dynamic": False, "backend": "cudagraphs"},
}


@dataclass
class Timed:
    """One way to run it, and what it took in seconds."""

    name: str
    step: Callable[..., Any]
    host: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, float]:
        return {
            "host_us": statistics.median(self.host) * 1e6,
            "host_least_us": min(self.host) * 1e6,
            "latency_us": statistics.median(self.latency) * 1e6,
            "latency_least_us": min(self.latency) * 1e6,
        }


def begin(description: str | None, **values: int | str | list[int]) -> argparse.Namespace:
    """The arguments of a script; ends it where there is no CUDA device."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json")
    parser.add_argument("--without", nargs="*", default=[], choices=COMPILED, help="ways that are left out")
    for name, default in values.items():
        several = isinstance(default, list)
        kind = int if several else type(default)
        parser.add_argument(f"--{name}", type=kind, nargs="*" if several else None, default=default)
    if not torch.cuda.is_available():
        parser.error(
            "no CUDA device: this benchmark runs on a GPU; hot_path.py measures host time without one"
        )
    torch._dynamo.config.cache_size_limit = 64
    warnings.simplefilter("error", GraphSplit)  # what is timed of AIR is one capture
    return parser.parse_args()


def marking(step: Callable[..., Any]) -> Callable[..., Any]:
    """A call of Inductor's graphs has to say that the outputs of the last one are no longer needed."""

    def call(*inputs: Tensor) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return step(*inputs)

    return call


def compiled(name: str, step: Callable[..., Any]) -> Timed:
    """A way that compiles."""
    made = torch.compile(step, **COMPILED[name])
    return Timed(name, marking(made) if name in ("max-autotune", "reduce-overhead") else made)


def bare(step: Callable[..., Tensor], *given: Tensor) -> list[Timed]:
    """A bare replay of one capture of a step, and the same after copying its inputs."""
    inputs = [each.clone() for each in given]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(*inputs)

    def replay(*given: Tensor) -> Tensor:
        graph.replay()
        return out

    replay.keeps = step  # type: ignore[attr-defined]  # the graph reads the memory of its weights and caches

    def with_copies(*given: Tensor) -> Tensor:
        for into, each in zip(inputs, given, strict=True):
            into.copy_(each, non_blocking=True)
        graph.replay()
        return out

    return [Timed(BARE, replay), Timed("copies + bare replay", with_copies)]


def check(rows: Sequence[Timed], inputs: Sequence[Tensor], exact: Tensor) -> None:
    """Every row is as near as the first one, eager, to what double precision computes, or nearly so, twice."""
    largest = exact.abs().max()
    eager, *others = rows

    def off(row: Timed) -> float:
        return float((row.step(*inputs).double() - exact).abs().max() / largest)

    allowed = max(ROUNDING, 2 * off(eager))
    for row in [*others, *others]:
        if not (found := off(row)) <= allowed:
            raise AssertionError(
                f"{row.name} is off by {found:.3f} of the largest value, {allowed:.3f} is allowed"
            )


def interleave(rows: Sequence[Timed], inputs: Sequence[Tensor], rounds: int, burst: int = 10) -> None:
    """Times bursts of every row in turn."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for row in rows:
                for _ in range(burst):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    row.step(*inputs)
                    row.host.append(time.perf_counter() - start)
                    torch.cuda.synchronize()
                    row.latency.append(time.perf_counter() - start)
    finally:
        gc.enable()


def table(title: str, rows: Sequence[Timed], base: str = BARE) -> str:
    """Host time and latency, each with its ratio to the base."""
    one = next(row for row in rows if row.name == base).as_dict()
    lines = [title, "", f"{'median us':<28}{'host':>10}{'x base':>8}{'latency':>10}{'x base':>8}"]
    for row in rows:
        found = row.as_dict()
        lines.append(
            f"{row.name:<28}{found['host_us']:>10.1f}{found['host_us'] / one['host_us']:>8.2f}"
            f"{found['latency_us']:>10.1f}{found['latency_us'] / one['latency_us']:>8.2f}"
        )
    return "\n".join([*lines, ""])
