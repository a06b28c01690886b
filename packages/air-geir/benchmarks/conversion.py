"""How the time to lower a graph grows with its nodes: the last line compares the largest graph with the smallest.

python packages/air-geir/benchmarks/conversion.py [--nodes 2500 5000 10000 20000]
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode

from air_geir.ge_passes import optimize
from air_geir.lowering import lower_program
from air_geir.verify import verify

aten = torch.ops.aten


def graph_of(nodes: int) -> fx.GraphModule:
    """A chain of matrix products, additions, activations and transpositions, described like AOTAutograd does."""
    graph = fx.Graph()
    with FakeTensorMode():
        value = graph.placeholder("x")
        weight = graph.placeholder("w")
        meta: Any = torch.empty(16, 16)
        value.meta["val"] = weight.meta["val"] = meta
        calls = [
            lambda v: (aten.mm.default, (v, weight)),
            lambda v: (aten.add.Tensor, (v, weight)),
            lambda v: (aten.silu.default, (v,)),
            lambda v: (aten.permute.default, (v, [1, 0])),
            lambda v: (aten.mul.Tensor, (v, 0.5)),
        ]
        for i in range(nodes):
            value = graph.call_function(*calls[i % len(calls)](value))
            value.meta["val"] = meta
        graph.output((value,))
    return fx.GraphModule({}, graph)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2500, 5000, 10000, 20000])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    lower_program(graph_of(10), [])
    costs: dict[int, float] = {}
    for nodes in chosen.nodes:
        gm = graph_of(nodes)
        start = time.process_time()
        program = lower_program(gm, [])
        lowered = time.process_time()
        optimize(program)
        verify(program.graph)
        done = time.process_time()
        costs[nodes] = (done - start) / nodes
        tracemalloc.start()
        lower_program(gm, [])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(
            f"{nodes:6d} nodes: lowered {(lowered - start) / nodes * 1e6:6.1f} us/node, "
            f"passes and verifier {(done - lowered) / nodes * 1e6:6.1f} us/node, "
            f"peak {peak / nodes / 1024:5.1f} KiB/node"
        )
    small, large = min(costs), max(costs)
    print(
        f"a node of {large} costs {costs[large] / costs[small]:.2f} of a node of {small} (1 is linear growth, "
        f"{large / small:.0f} quadratic)"
    )
    if chosen.json:
        chosen.json.write_text(json.dumps({"conversion, s per node": costs}) + "\n")


if __name__ == "__main__":
    main()
