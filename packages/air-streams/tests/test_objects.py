"""A graph that was kept gets the streams and events of the process that runs it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._dynamo import graph_bytecode_inputs as numbered
from torch.fx import Graph, GraphModule

from air_streams import NormalizeReport, normalize, rename_objects


def native_graph() -> GraphModule:
    """What Dynamo writes of a fork to the stream number 1 with the event number 2."""
    graph = Graph()
    x = graph.placeholder("x")
    streams = torch.ops.streams
    graph.call_function(streams.record_event.default, (2, 0))
    graph.call_function(streams.wait_event.default, (2, 1))
    y = graph.call_function(torch.neg, (x,))
    y.meta["custom"] = {"stream": 1}
    graph.output(y)
    return GraphModule({}, graph)


def objects() -> list[Any]:
    return [torch.Stream(device="cpu"), torch.Stream(device="cpu"), torch.Event("cpu")]


def normalized(held: list[Any]) -> tuple[GraphModule, NormalizeReport]:
    numbered.store_user_object_weakrefs(*held)
    gm = native_graph()
    return gm, normalize(gm)


def words(gm: GraphModule) -> list[tuple[str, Any]]:
    """The operators of streams, with what each names."""
    return [
        (str(node.target), node.args[0])
        for node in gm.graph.nodes
        if node.op == "call_function" and "stream" in str(node.target)
    ]


def test_names_are_those_of_the_objects_that_have_the_same_numbers_now() -> None:
    first, second = objects(), objects()
    kept, report = normalized(first)
    other, _ = normalized(second)
    assert words(kept) != words(other), "each process has names of its own"
    rename_objects(kept, report.objects)
    assert words(kept) == words(other)


def test_a_graph_without_native_objects_is_left_alone() -> None:
    def plain(x: Tensor) -> Tensor:
        return x + 1

    gm = torch.fx.symbolic_trace(plain)
    report = normalize(gm)
    before = str(gm.graph)
    rename_objects(gm, report.objects)
    assert report.objects == {}
    assert str(gm.graph) == before
