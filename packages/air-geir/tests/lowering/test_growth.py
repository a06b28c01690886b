"""Converting a graph of twice the size takes twice the work: what is counted are the lines of Python that run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch
from torch import fx
from torch._subclasses import FakeTensorMode

from air_geir.file import to_bytes
from air_geir.ge_passes import optimize
from air_geir.lowering import lower_program
from air_geir.program import Program
from air_geir.verify import verify

aten = torch.ops.aten
SMALL, LARGE = 200, 800
GENEROUS = 1.5
"""How many times as much work per node the larger graph may take; quadratic growth takes four times as much."""


def chain(nodes: int) -> fx.GraphModule:
    """Each value is read by the next step alone."""
    return graph_of(nodes, lambda values: values[-1])


def star(nodes: int) -> fx.GraphModule:
    """The first value is read by every step."""
    return graph_of(nodes, lambda values: values[0])


def graph_of(nodes: int, chosen: Callable[[list[fx.Node]], fx.Node]) -> fx.GraphModule:
    graph = fx.Graph()
    with FakeTensorMode():
        meta: Any = torch.empty(16, 16)
    x, weight = graph.placeholder("x"), graph.placeholder("w")
    x.meta["val"] = weight.meta["val"] = meta
    values = [x]
    for i in range(nodes):
        value = chosen(values)
        target, args = [
            (aten.mm.default, (value, weight)),
            (aten.add.Tensor, (values[-1], value)),
            (aten.silu.default, (value,)),
            (aten.permute.default, (value, [1, 0])),
            (aten.mul.Tensor, (value, 0.5)),
        ][i % 5]
        values.append(graph.call_function(target, args))
        values[-1].meta["val"] = meta
    graph.output(tuple(values[-5:]))
    return fx.GraphModule({}, graph)


def lines_of(work: Callable[[], object]) -> Counter[str]:
    """How many lines of each file ran."""
    counted: Counter[str] = Counter()

    def look(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            counted[frame.f_code.co_filename] += 1
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


def converted(gm: fx.GraphModule) -> Program:
    program = lower_program(gm, [])
    optimize(program)
    verify(program.graph)
    to_bytes(program.graph)
    return program


def excess(make: Callable[[int], fx.GraphModule], work: Callable[[fx.GraphModule], object]) -> float:
    """The work for a node of the large graph, in that for a node of the small one."""
    work(make(10))  # what is done once for a process
    small, large = make(SMALL), make(LARGE)
    small_lines = lines_of(lambda: work(small)).total() / SMALL
    return lines_of(lambda: work(large)).total() / LARGE / small_lines


@pytest.mark.parametrize("make", [chain, star])
def test_the_work_of_conversion_grows_with_the_nodes(make: Callable[[int], fx.GraphModule]) -> None:
    assert excess(make, converted) < GENEROUS


def test_work_that_looks_at_every_pair_would_be_noticed() -> None:
    def pairs(gm: fx.GraphModule) -> None:
        nodes = list(gm.graph.nodes)
        for one in nodes:
            for other in nodes:
                assert one is other or one.name != other.name

    assert excess(chain, pairs) > 2 * GENEROUS
