"""Random programs on several streams, captured by the real torch_npu, give what one stream gives, with sync="auto".

air-sim delays tasks and the task queue at random, so that what nothing orders happens in another order.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Graph, GraphModule
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from aclgraph_backend import settings, unpadded
from air_streams import StreamPlan
from streams_device import run_eagerly
from streams_programs import aten, on_stream, random_dataflow, random_views

air_sim = pytest.importorskip("air_sim")
pytestmark = [
    pytest.mark.npu("air-sim delays what the device does"),
    pytest.mark.usefixtures("in_order_again"),
]

CALLS = 5
SIZES = (4, 1_000, 100_000)


def plain(source: random.Random, size: int) -> Graph:
    """A program of values of one size."""
    length, streams = source.randint(3, 24), source.randint(2, 4)
    graph: Graph = random_dataflow(source, length=length, streams=streams, inputs=source.randint(2, 3))
    return graph


def viewed(source: random.Random, size: int) -> Graph:
    """A program with views and parts."""
    length, streams = source.randint(4, 26), source.randint(2, 4)
    inputs = source.randint(2, 3)
    graph: Graph = random_views(source, length=length, streams=streams, inputs=inputs, size=size)
    return graph


def difference_of(seed: int) -> str | None:
    """Draws a program, and delays."""
    source = random.Random(seed)
    size = source.choice(SIZES)
    graph = source.choice((plain, viewed))(source, size)
    air_sim.change(
        seed=seed + 1,
        delay_us=source.choice((0, 0, 200, 1_000)),
        launch_delay_us=source.choice((0, 50, 300, 1_500)),
    )
    options = {"air__warmup": source.choice((0, 1)), "air__outputs": source.choice(("kept", "clone", "view"))}
    return first_difference(f"program {seed}", graph, size, known=source.random() < 0.7, **options)


def first_difference(
    name: str, graph: Graph, size: int, *, known: bool = False, **options: Any
) -> str | None:
    """Captures a program and compares some calls; says which call gave what. `known`: where views lie is known."""
    count = len(graph.find_nodes(op="placeholder"))

    def values(call: int) -> list[Tensor]:
        return [torch.arange(size, dtype=torch.int32) % 7 + 1 + number + call for number in range(count)]

    gm = GraphModule(torch.nn.Module(), graph)
    if known:
        FakeTensorProp(gm).propagate(*values(0))
    plan = StreamPlan.of(gm.graph, sync="auto")
    examples = [value.to("npu") for value in values(0)]
    chosen = settings("npu", **options)
    run = unpadded(gm, examples, settings=chosen, plan=plan)
    try:
        for call in range(CALLS):
            expected = run_eagerly(graph, values(call))
            given = [value.to("npu") for value in values(call)]
            found = [value.cpu() for value in (*run(*given), *given)]
            if not all(map(torch.equal, found, expected)):
                return f"{name}, call {call}: {found}, expected {expected}"
    finally:
        run.close()
    return None


@pytest.mark.parametrize("programs", [range(20), pytest.param(range(20, 320), marks=pytest.mark.slow)])
def test_N06_captured_programs_on_random_streams_give_what_one_stream_gives(programs: range) -> None:
    assert [found for seed in programs if (found := difference_of(seed))] == []


def test_N06_a_write_that_nobody_sees_leaves_the_memory_alone_that_its_tensor_was_made_of() -> None:
    """`made` has the block of `old`: its first write, on another stream, came while `old` was still to be read."""
    graph = Graph()
    x = graph.placeholder("x")
    old = graph.call_function(aten.mul.Tensor, (x, x))
    read = graph.call_function(aten.add.Tensor, (old, x))
    made = graph.call_function(aten.add.Tensor, (x, 1))
    on_stream(graph, 1, (aten.fill_.Scalar, (made, 2), {}))
    on_stream(graph, 2, (aten.fill_.Scalar, (made, 3), {}))
    graph.output((read, made))
    air_sim.change(delay_us=2_000, seed=3)
    assert first_difference("program", graph, 1_000, air__warmup=0) is None
