"""What a node calls, whoever wrote it."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph

from air_graph import called_operator

aten = torch.ops.aten


def test_an_operator_without_an_overload_means_the_default_one() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    called = [graph.call_function(target, (x,)) for target in (aten.relu, aten.relu.default, aten.add.Tensor)]
    assert [called_operator(node) for node in called] == [
        aten.relu.default,
        aten.relu.default,
        aten.add.Tensor,
    ]


def test_what_is_no_operator_of_torch_calls_none() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    others = [
        x,
        graph.call_function(operator.neg, (x,)),
        graph.call_function(torch.relu, (x,)),
        graph.call_method("relu", (x,)),
        graph.call_module("layer", (x,)),
        graph.call_function(aten.pow, (x, 2)),  # has overloads, and none of them is the default one
    ]
    assert [called_operator(node) for node in others] == [None] * len(others)
