"""Collectives that are under way where a graph begins or ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import (
    effects_of,
    finish_collectives,
    inputs_in_flight,
    waiting,
    waits_for_collective,
)

functional: Any = torch.ops._c10d_functional


@pytest.fixture
def group() -> Iterator[str]:
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=torch._C._distributed_c10d.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD.group_name  # type: ignore[union-attr]  # there is one now
    dist.destroy_process_group()


def traced(function: Callable[..., Any], *args: Tensor) -> GraphModule:
    return make_fx(function, tracing_mode="fake")(*args)


def waits(gm: GraphModule) -> int:
    return sum(waits_for_collective(node.target) for node in gm.graph.nodes)


def test_an_input_that_a_graph_waits_for_may_be_under_way_also_as_a_view() -> None:
    gm = traced(lambda x, y, z: (functional.wait_tensor(z.view(-1)) * 2, x + y), *torch.ones(3, 2, 2))
    assert inputs_in_flight(gm) == (2,)


def test_an_input_of_a_collective_is_not_under_way(group: str) -> None:
    gm = traced(lambda x: functional.wait_tensor(functional.all_reduce(x, "sum", group)) * 2, torch.ones(2))
    assert inputs_in_flight(gm) == ()


def test_what_waits_for_inputs_waits_before_it_runs(group: str) -> None:
    unfinished = torch._C._distributed_c10d._get_work_registry_size
    started = functional.all_reduce(torch.ones(2), "sum", group)
    before = unfinished()
    run = waiting(lambda x, y: unfinished(), (1,))
    assert run(torch.ones(2), started) == before - 1
    assert run(torch.ones(2), started) == before - 1, "waiting again finds nothing to wait for"


def test_without_such_inputs_a_function_stays_as_it_is() -> None:
    assert waiting(max, ()) is max


def test_a_graph_waits_at_its_end_for_what_it_waits_for_nowhere(group: str) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        waited = functional.wait_tensor(functional.all_reduce(x, "sum", group).view(-1))
        many = functional.all_reduce_coalesced([x, x * 2], "sum", group)
        return waited, functional.all_reduce(x, "max", group), many[1]

    gm = traced(function, torch.ones(2))
    assert finish_collectives(gm)
    assert waits(gm) == 4
    returned = gm.graph.output_node().all_input_nodes
    assert [waits_for_collective(node.target) for node in returned] == [True, True, True]
    assert all(node.meta["val"].shape == (2,) for node in returned)
    assert not finish_collectives(gm), "all of them are waited for now"


def test_what_a_wait_gives_lies_in_the_memory_of_what_it_is_given() -> None:
    effects = effects_of(functional.wait_tensor.default)
    (argument,) = effects.arguments
    assert argument.reads
    assert argument.aliases & effects.returns[0]
