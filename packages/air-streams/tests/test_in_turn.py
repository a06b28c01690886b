"""Which groups a graph names, and when a replay has to be ordered among their collectives.

The order itself is seen with two ranks, by `in_turn` of air-backend's distributed programs.
"""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives
from torch.fx import Graph, GraphModule

from air_streams import groups_of, in_turn

reduce = torch.ops._c10d_functional.all_reduce.default


def reducing(*groups: str, inside: GraphModule | None = None) -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    for group in groups:
        x = graph.call_function(reduce, (x, "sum", group))
    graph.output(x)
    return GraphModule(torch.nn.ModuleDict({} if inside is None else {"branch": inside}), graph)


def test_N22_the_groups_of_a_graph_are_named_once_and_those_of_its_branches_as_well() -> None:
    inside = reducing("ep", "tp")
    gm = reducing("tp", "dp", "tp", inside=inside)
    gm.branch = inside
    assert groups_of(gm) == ("tp", "dp", "ep")


def test_N22_a_graph_without_collectives_names_no_group() -> None:
    assert groups_of(reducing()) == ()


def test_N22_on_devices_that_order_their_collectives_nothing_is_put_around_a_replay() -> None:
    def replay() -> int:
        return 7

    assert in_turn(replay, ("tp",), torch.device("cpu")) is replay
    assert in_turn(replay, ("tp",), torch.device("cuda")) is replay


@pytest.mark.npu("nothing is ordered elsewhere")
def test_N22_a_name_that_is_no_process_group_has_no_stream_to_wait_for() -> None:
    assert not dist.is_initialized()

    def replay() -> int:
        return 7

    device = torch.device("npu", 0)
    assert in_turn(replay, (), device) is replay
    assert in_turn(replay, ("127.0.0.1%lo_60000_0_1",), device) is replay
