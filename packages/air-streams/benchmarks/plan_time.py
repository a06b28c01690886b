"""How long a plan takes, by the size of the graph: `python benchmarks/plan_time.py [--json FILE]`.

Each graph has work on 8 streams with waits between them and one storage per operator, as a model has. Reading
the plan includes the checks (`check()` and `redundant()`) and the executor's steps. The sizes run interleaved,
the best of several rounds counts, and the claim is a ratio: ten times the nodes take at most twelve times as long.
Python's cycle collector looks again and again at all the objects of a large graph, ours or not, so times are given
with it and without.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from pathlib import Path

import torch
from torch.fx import Graph

from air_streams import StreamPlan

aten = torch.ops.aten
ops = torch.ops.air_streams


def model_like_graph(nodes: int, streams: int = 8, seed: int = 0) -> Graph:
    """A graph of about so many nodes: blocks of work on a stream, each waiting for the block it reads from."""
    source = random.Random(seed)
    graph = Graph()
    values = [graph.placeholder("x")]
    block = 0
    while len(graph.nodes) < nodes:
        stream = source.randrange(streams)
        read = source.choice(values[-20:])
        if stream:
            graph.call_function(ops.stream_enter.default, (str(stream),))
        if block:
            graph.call_function(ops.event_wait.default, (f"e{source.randrange(max(block - 4, 0), block)}",))
        value = read
        for _ in range(6):
            value = graph.call_function(aten.add.Tensor, (value, read))
        graph.call_function(aten.mul_.Scalar, (value, 2))
        graph.call_function(ops.event_record.default, (f"e{block}",))
        if stream:
            graph.call_function(ops.stream_exit.default, (str(stream),))
        values.append(value)
        block += 1
    graph.output((values[-1],))
    return graph


def seconds(graph: Graph, *, collector: bool) -> float:
    """Processor time of one reading of the plan with all its checks, with or without Python's cycle collector."""
    gc.collect()
    if not collector:
        gc.disable()
    start = time.process_time()
    plan = StreamPlan.of(graph, sync="off")
    plan.check()
    plan.redundant()
    plan.actions(plan.nodes[-1])
    taken = time.process_time() - start
    gc.enable()
    return taken


def measure(sizes: tuple[int, ...], rounds: int, streams: int = 8) -> dict[bool, dict[int, float]]:
    """Best time per size, with and without the collector; sizes interleaved."""
    graphs = {size: model_like_graph(size, streams) for size in sizes}
    best = {collector: dict.fromkeys(sizes, float("inf")) for collector in (True, False)}
    for _ in range(rounds):
        for size, graph in graphs.items():
            for collector, times in best.items():
                times[size] = min(times[size], seconds(graph, collector=collector))
    return best


def main() -> None:
    """Prints times and ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    given = parser.parse_args()
    best = measure(tuple(given.nodes), given.rounds, given.streams)
    if given.json:
        names = {True: "collector on", False: "collector off"}
        found = {f"plan, {names[on]}, s": times for on, times in best.items()}
        given.json.write_text(json.dumps(found) + "\n")
    for collector, times in best.items():
        print("with the cycle collector" if collector else "without it")
        for size, taken in times.items():
            ratio = f"  x{taken / times[size // 10]:.1f} for x10 nodes" if size // 10 in times else ""
            print(f"  {size:>7} nodes, {given.streams} streams: {taken:.3f} s{ratio}")


if __name__ == "__main__":
    main()
