"""What a graph in three captured pieces costs per call, beside its pieces and the eager operators called one by one.

    python pieces_cost.py                                          tensors of the CPU
    AIR_SIM_NOOP=1 TASK_QUEUE_ENABLE=0 air-sim run python pieces_cost.py --device npu

All rows run in one process, their rounds interleaved. On air-sim the numbers are host time above the ACL boundary:
kernels and copies do nothing, and this is not the performance of an NPU.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import air_aclgraph
from air_backend import _records
from air_backend.errors import GraphSplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "air-aclgraph" / "benchmarks"))

from _measure import NOTE, Row, device_of, interleave, numbers, show, table, write

Function = Callable[[Tensor, list[Tensor]], Tensor]
STEPS = 10
"""Products in each piece."""


def piece(x: Tensor, weights: list[Tensor]) -> Tensor:
    for weight in weights:
        x = x * weight
    return x


def whole(x: Tensor, weights: list[Tensor]) -> Tensor:
    """Three pieces with two operators between them that stay out of captures."""
    first = piece(x, weights[:STEPS]).tanh()
    second = piece(first, weights[STEPS : 2 * STEPS]).tanh()
    return piece(second, weights[2 * STEPS :])


def executable_of(function: Function, *inputs: Any) -> Any:
    """What runs a function once Dynamo and AOTAutograd are done with it."""
    compiled: Any = torch.compile(function, backend="air", options={"mode": "reduce-overhead"}, dynamic=False)
    for _ in range(3):
        compiled(*inputs)
    return _records.alive()[-1][1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", GraphSplit)
    x = torch.rand(64, device=asked.device) + 1
    weights = [torch.rand(64, device=asked.device) + 1 for _ in range(3 * STEPS)]
    with torch.no_grad():
        uncut = executable_of(lambda x, weights: whole(x, weights), x, weights)
        alike: tuple[Function, ...] = (  # Dynamo knows functions by their code
            lambda x, weights: piece(x, weights),
            lambda x, weights: piece(x, weights),
            lambda x, weights: piece(x, weights),
        )
        parts = [
            executable_of(part, x, weights[at * STEPS : (at + 1) * STEPS]) for at, part in enumerate(alike)
        ]
        air_aclgraph.register_uncapturable("aten::tanh", "for this benchmark")
        cut = executable_of(lambda x, weights: whole(x, weights), x, weights)
        assert len(cut.pieces) == 3

        def one_by_one() -> Any:
            (a,) = parts[0](x, *weights[:STEPS])
            (b,) = parts[1](a.tanh(), *weights[STEPS : 2 * STEPS])
            return parts[2](b.tanh(), *weights[2 * STEPS :])

        expected = whole(x, weights)
        if asked.device == "cpu":
            for (found,) in (uncut(x, *weights), cut(x, *weights), one_by_one()):
                torch.testing.assert_close(found, expected)
        rows = [
            Row("three pieces and two operators, one by one", one_by_one),
            Row("the graph in three pieces", lambda: cut(x, *weights)),
            Row("the graph without cuts", lambda: uncut(x, *weights)),
        ]
        interleave(rows, rounds=asked.rounds, device=device_of(asked.device))
    base = (rows[0].least_us, rows[0].median_us)
    show(table(f"a graph in pieces, {asked.device}", rows, base, NOTE if asked.device == "npu" else ""))
    write(asked.json, {f"pieces-{asked.device}": numbers(rows)})


if __name__ == "__main__":
    main()
