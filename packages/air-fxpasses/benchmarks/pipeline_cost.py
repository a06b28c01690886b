"""What the passes cost: growth with the graph, and the same work beside Inductor's passes in one process.

    python benchmarks/pipeline_cost.py [--nodes 10000] [--rounds 5]

Both sides get copies of one graph whose example values are there already, run interleaved, and the best round
counts. `theirs` is Inductor's `remove_noop_ops` and `reinplace_inplaceable_ops`; `mine` is building the facts,
removing operators without effect and both reinplacing passes, which try every operator with an in-place form
and not only index_put and the scatters.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch._guards import detect_fake_mode
from torch._inductor.fx_passes.post_grad import remove_noop_ops
from torch._inductor.fx_passes.reinplace import reinplace_inplaceable_ops
from torch._inductor.fx_utils import FakeTensorUpdater
from torch._inductor.virtualized import V
from torch.fx import Graph, GraphModule

from air_fxpasses import Pipeline, ReinplaceInplaceable, ReinplaceInputMutated, RemoveNoop, default_passes
from air_fxpasses.testing import functional_graph

LAYER_NODES = 20


def layer(x: torch.Tensor, cache: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """A decoder layer's mix of operators: norm, projection, cache update, attention, gate."""
    h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    cache.index_put_((at,), h)
    cache[2:3] = h[:1] * 2
    scores = torch.softmax(h @ cache.t() + 1, -1) @ cache
    gate = torch.sigmoid(scores.clone()) * scores
    return x + gate.view(gate.shape).relu()


def graph_of(nodes: int) -> GraphModule:
    """At least that many calls, each layer with a cache of its own."""
    inputs = (torch.ones(2, 8), torch.zeros(16, 8), torch.tensor([1, 5]))
    size = sum(n.op == "call_function" for n in functional_graph(layer, *inputs).graph.nodes)
    layers = max(1, round(nodes / size))

    def model(x: torch.Tensor, at: torch.Tensor, *caches: torch.Tensor) -> torch.Tensor:
        for cache in caches:
            x = layer(x, cache, at)
        return x

    return functional_graph(model, inputs[0], inputs[2], *[torch.zeros(16, 8) for _ in range(layers)])


def duplicate(gm: GraphModule) -> GraphModule:
    graph = Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    return GraphModule(gm, graph)


def mine(gm: GraphModule) -> None:
    Pipeline([RemoveNoop(), ReinplaceInplaceable(), ReinplaceInputMutated()], recompile=False).run(gm)


def theirs(gm: GraphModule) -> None:
    mode = detect_fake_mode([n.meta.get("val") for n in gm.graph.nodes])
    with V.set_fake_mode(mode):
        updater = FakeTensorUpdater(gm)
        remove_noop_ops(gm.graph)
        reinplace_inplaceable_ops(updater, gm.graph)


def everything(gm: GraphModule) -> None:
    Pipeline(default_passes(), recompile=False).run(gm)


def best_seconds(gm: GraphModule, runs: list[Callable[[GraphModule], None]], rounds: int) -> list[float]:
    """The best time of each run, all on copies of one graph, interleaved."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for index, run in enumerate(runs):
            copy = duplicate(gm)
            started = time.process_time()
            run(copy)
            best[index] = min(best[index], time.process_time() - started)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    times: dict[int, list[float]] = {}
    for nodes in (options.nodes // 10, options.nodes):
        gm = graph_of(nodes)
        count = len(gm.graph.nodes)
        times[nodes] = best_seconds(gm, [mine, theirs, everything], options.rounds)
        a, b, c = times[nodes]
        print(
            f"{count} nodes: mine {a:.3f} s, Inductor {b:.3f} s, mine/Inductor {a / b:.2f}, all passes {c:.3f} s"
        )
    small, large = times[options.nodes // 10], times[options.nodes]
    print(
        f"growth for 10 x the nodes: mine {large[0] / small[0]:.1f} x, all passes {large[2] / small[2]:.1f} x"
    )
    if options.json:
        names = ("AIR", "Inductor", "AIR, all passes")
        sizes = {
            f"passes, {nodes} nodes, s": dict(zip(names, best, strict=True)) for nodes, best in times.items()
        }
        options.json.write_text(json.dumps(sizes) + "\n")


if __name__ == "__main__":
    main()
