"""A decode step of grouped heads over a cache of 2,048 places: with a copy of keys for every head, and without.

    python grouped_heads.py

Plain CPU tensors, one process, rounds interleaved. What the step is without the copies is what
`air.read_repeats_once` makes of it; `eager` repeats the keys, as models of transformers do.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "air-aclgraph" / "benchmarks"))

from _measure import Row, device_of, interleave, numbers, show, table, write

HEADS, KEY_HEADS, PLACES, WIDTH = 32, 8, 2048, 64


def repeated(x: Tensor) -> Tensor:
    batch, heads, length, width = x.shape
    wide = x[:, :, None].expand(batch, heads, HEADS // KEY_HEADS, length, width)
    return wide.reshape(batch, HEADS, length, width)


def step(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ repeated(k).transpose(2, 3) / WIDTH**0.5
    return (F.softmax(scores, -1) @ repeated(v)).transpose(1, 2).flatten(2) * 2  # what follows in a model


def compiled(reads_once: bool) -> Callable[..., Tensor]:
    torch._dynamo.reset()
    options: Any = {"mode": "reduce-overhead", "air.read_repeats_once": reads_once}
    return torch.compile(lambda q, k, v: step(q, k, v), backend="air", options=options)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json")
    asked = parser.parse_args()
    torch.manual_seed(0)
    q = torch.randn(1, HEADS, 1, WIDTH)
    k, v = (torch.randn(1, KEY_HEADS, PLACES, WIDTH) for _ in "kv")
    for cache in (k, v):
        torch._dynamo.mark_static_address(cache)  # as models of transformers mark theirs
    ways = {"eager": step, "AIR, a copy for every head": compiled(False), "AIR": compiled(True)}
    torch.set_num_threads(1)
    with torch.no_grad():
        for way in ways.values():
            for _ in range(3):
                torch.testing.assert_close(way(q, k, v), step(q, k, v))
        rows = [Row(name, functools.partial(way, q, k, v)) for name, way in ways.items()]
        interleave(rows, rounds=asked.rounds, device=device_of("cpu"))
    base = (rows[0].least_us, rows[0].median_us)
    show(table("a decode step of grouped heads, cpu", rows, base))
    write(asked.json, {"grouped-heads-cpu": numbers(rows)})


if __name__ == "__main__":
    main()
