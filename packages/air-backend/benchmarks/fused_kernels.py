"""What a call costs whose captures hold Inductor's kernels (`air.kernels`), beside Inductor itself.

    python fused_kernels.py                   tensors of the CPU
    python fused_kernels.py --device cuda

A chain of 50 elementwise operators and an MLP of 8 layers, in one process, their rounds interleaved. TorchScript
is timed on the CPU alone: on a GPU it compiles the MLP for minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "air-aclgraph" / "benchmarks"))

from _measure import Row, device_of, interleave, numbers, show, table, write


def chain(x: Tensor, y: Tensor) -> Tensor:
    """50 elementwise operators."""
    for _ in range(10):
        x = torch.relu(x * y + 0.5) - y.abs()
    return x


def mlp(width: int) -> nn.Module:
    """8 layers."""
    layers = [part for _ in range(8) for part in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers).eval().requires_grad_(False)


def rows_of(function: FunctionType, *inputs: Tensor) -> list[Row]:
    """One function, compiled in each way."""
    ways: dict[str, dict[str, Any]] = {
        "aot_eager": {"backend": "aot_eager"},
        "Inductor": {},
        "AIR, kernels of Inductor": {
            "backend": "air",
            "options": {"mode": "reduce-overhead", "air.kernels": "inductor"},
        },
        "AIR, kernels of Inductor, inputs copied": {
            "backend": "air",
            "options": {"mode": "reduce-overhead", "air.kernels": "inductor", "air.adaptive_slots": 0},
        },
        "AIR, kernels of ATen": {"backend": "air", "options": {"mode": "reduce-overhead"}},
    }
    rows = [Row("eager", _bound(function, inputs))]
    for name, how in ways.items():
        rows.append(Row(name, _bound(torch.compile(_another(function), dynamic=False, **how), inputs)))
        for _ in range(6):
            rows[-1].call()
    if inputs[0].device.type == "cpu":
        rows.append(Row("TorchScript", _bound(scripted(function, inputs), inputs)))
    return rows


def scripted(function: FunctionType, inputs: tuple[Tensor, ...]) -> Callable[..., Any]:
    """The function as TorchScript sees it, past the calls in which it still specialises."""
    traced: Callable[..., Any] = torch.jit.freeze(torch.jit.trace(_module(function), inputs).eval())
    for _ in range(6):
        traced(*inputs)
    return traced


def _module(function: FunctionType) -> nn.Module:
    """TorchScript freezes modules."""
    whole = nn.Module()
    whole.forward = function  # type: ignore[method-assign]
    return whole


def _another(function: FunctionType) -> FunctionType:
    """The same function with code of its own: Dynamo knows functions by their code."""
    return FunctionType(function.__code__.replace(), function.__globals__, None, None, function.__closure__)


def _bound(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> Callable[[], Any]:
    return lambda: function(*inputs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--json")
    asked = parser.parse_args()
    x, y = (torch.rand(64, asked.width, device=asked.device) for _ in range(2))
    model = mlp(asked.width).to(asked.device)
    cases: dict[str, tuple[FunctionType, tuple[Tensor, ...]]] = {
        "chain of 50 operators": (lambda x, y: chain(x, y), (x, y)),
        "MLP of 8 layers": (lambda x: model(x), (x,)),
    }
    results = {}
    with torch.no_grad():
        for title, (function, inputs) in cases.items():
            rows = rows_of(function, *inputs)
            interleave(rows, rounds=asked.rounds, device=device_of(asked.device))
            inductor = next(row for row in rows if row.name == "Inductor")
            show(table(f"{title}, {asked.device}; base: Inductor", rows,
                       (inductor.least_us, inductor.median_us)))  # fmt: skip
            results[title] = numbers(rows)
    write(asked.json, {"fused kernels": results})


if __name__ == "__main__":
    main()
