"""Which nodes a region of Inductor takes, by the memory that it writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from aclgraph_backend import traced
from air_aclgraph.fused._runs import Run, written_by
from air_graph import owner_of

aten = torch.ops.aten


def nodes_of(function: Callable[..., Any], *inputs: Tensor) -> list[Node]:
    gm: GraphModule = traced(function, *inputs)
    return [node for node in gm.graph.nodes if node.op == "call_function"]


def taken(nodes: list[Node]) -> list[bool]:
    """Whether one run takes each node, added one after the other."""
    run, found = Run(), []
    for node in nodes:
        found.append(run.takes(node))
        if found[-1]:
            run.add(node)
    return found


def test_a_line_of_a_cache_is_written_where_the_cache_was_not_looked_at() -> None:
    def first(cache: Tensor, at: Tensor, x: Tensor) -> Any:
        return aten.index_copy_(cache, 0, at, x.relu()) * 2

    def later(cache: Tensor, at: Tensor, x: Tensor) -> Any:
        return cache.relu() + aten.index_copy_(cache, 0, at, x)

    inputs = torch.rand(4, 2), torch.tensor([1]), torch.rand(1, 2)
    assert all(taken(nodes_of(first, *inputs)))
    looks, writes, _ = taken(nodes_of(later, *inputs))
    assert looks
    assert not writes


def test_memory_that_is_written_reaches_a_region_once() -> None:
    def through_both(cache: Tensor, x: Tensor) -> Any:
        return aten.add_.Tensor(cache, x) + aten.select.int(cache, 0, 0)

    *_, select, add = nodes = nodes_of(through_both, torch.rand(4, 2), torch.rand(4, 2))
    assert all(taken(nodes))
    run = Run()
    for node in nodes[:-2]:
        run.add(node)
    assert owner_of(select).op == "placeholder"
    assert not run.takes(add), "the view was taken outside, and the cache is there, too"


def test_views_of_written_memory_stay_in_the_run() -> None:
    def function(cache: Tensor, x: Tensor) -> Tensor:
        aten.add_.Tensor(aten.select.int(cache, 0, 0), x)
        return cache * 2

    nodes = nodes_of(function, torch.rand(4, 2), torch.rand(2))
    run = Run()
    for node in nodes:
        assert run.takes(node)
        run.add(node)
    assert run.trimmed() == nodes
    assert [written_by(node) is not None for node in nodes] == [False, True, False]
