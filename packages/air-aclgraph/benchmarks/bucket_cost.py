"""What buckets save and cost on the host runtime: batches of 48 sizes through an encoder layer, in one process.

python benchmarks/bucket_cost.py --json results.json

Without buckets each new size is captured; with them three sizes are, and smaller batches compute rows that are thrown
away. `a size seen before` is one call with a batch that its bucket holds exactly and one that it pads.
"""

from __future__ import annotations

import argparse
import functools
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers
from _measure import Row, interleave, numbers, show, table, write
from hot_path import ours
from torch import Tensor

from air_aclgraph.buckets import set_dim_buckets

BUCKETS = (16, 32, 48)
LENGTH = 6


def batch(rows: int, *, buckets: bool) -> Tensor:
    """Token ids whose first dim is dynamic."""
    ids = torch.randint(0, 50, (rows, LENGTH))
    if buckets:
        set_dim_buckets(ids, {0: BUCKETS})
    else:
        torch._dynamo.mark_dynamic(ids, 0)
    return ids


def first_calls(function: Callable[[Tensor], Any], *, buckets: bool) -> float:
    """Seconds for one call of each size in random order, after the graph was compiled."""
    sizes = random.Random(0).sample(range(2, max(BUCKETS) + 1), max(BUCKETS) - 2)
    function(batch(max(BUCKETS), buckets=buckets))
    inputs = [batch(size, buckets=buckets) for size in sizes]
    started = time.perf_counter()
    for ids in inputs:
        function(ids)
    return time.perf_counter() - started


def main(arguments: Sequence[str] | None = None) -> None:
    """Times first calls of every size, then calls of sizes that were seen before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=40)
    parsed = parser.parse_args(arguments)
    logging.disable(logging.INFO)
    config = transformers.BertConfig(
        hidden_size=32, intermediate_size=64, num_attention_heads=4, num_hidden_layers=1, vocab_size=50
    )
    rows: list[Row] = []
    seconds: dict[str, float] = {}
    with torch.no_grad():
        for buckets in (False, True):
            torch._dynamo.reset()
            torch.manual_seed(0)
            model: Any = transformers.BertModel(config)
            model.eval()
            function = torch.compile(lambda ids, model=model: model(ids)[0], backend=ours([]))
            name = "with buckets" if buckets else "each size captured"
            seconds[name] = first_calls(function, buckets=buckets)
            for size in (BUCKETS[0], BUCKETS[0] - 3):
                ids = batch(size, buckets=buckets)
                torch.testing.assert_close(function(ids), model(ids)[0], rtol=1e-3, atol=1e-4)
                rows.append(Row(f"{name}, {size} rows", functools.partial(function, ids)))
        interleave(rows, rounds=parsed.rounds, burst=5)
    plain, padded = seconds["each size captured"], seconds["with buckets"]
    show(
        f"first call of each of {max(BUCKETS) - 2} sizes: {plain:.3f} s each captured, {padded:.3f} s with buckets "
        f"{list(BUCKETS)}: {padded / plain:.2f}"
    )
    base = (rows[0].least_us, rows[0].median_us)
    show(table("a size seen before, cpu", rows, base, "base: a size of its own"))
    write(parsed.json, {"buckets": {**numbers(rows), "first calls": seconds}})


if __name__ == "__main__":
    main()
