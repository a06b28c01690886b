"""Collectives name the communicators that the engine knows, and say so where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.fx.experimental.proxy_tensor import make_fx

from air_geir import lower_program
from air_geir.engines._groups import NamedGroups, name_communicators
from air_geir.errors import EngineError
from air_geir.ir import Graph
from air_graph import ranks


def reduced(group: str) -> Graph:
    """A graph that sums a tensor over a group."""
    gm = make_fx(
        lambda x: torch.ops._c10d_functional.wait_tensor(
            torch.ops._c10d_functional.all_reduce(x, "sum", group)
        ),
        tracing_mode="fake",
    )(torch.randn(4))
    example = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
    return lower_program(gm, example, name="reduced").graph


def named(graph: Graph) -> list[str]:
    return [str(node.attr("group")) for node in graph if "group" in node.attrs]


@pytest.fixture
def world() -> Iterator[str]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    yield dist.group.WORLD.group_name  # type: ignore[union-attr]  # there is one now
    dist.destroy_process_group()


def test_G48_a_name_of_hccl_stays_as_it_is() -> None:
    graph = reduced("127.0.0.1%lo_60000_0_1")
    name_communicators(graph)
    assert named(graph) == ["127.0.0.1%lo_60000_0_1"]


def test_G48_a_group_without_npu_backend_is_refused_with_what_to_do(world: str) -> None:
    assert ranks.group_named(world) is dist.group.WORLD
    with pytest.raises(EngineError, match=r"HcomAllReduce: process group .* has no backend") as failure:
        name_communicators(reduced(world))
    assert "init_process_group('hccl')" in str(failure.value.advice)


def test_N22_the_groups_of_a_graph_are_those_that_torch_named() -> None:
    assert NamedGroups(reduced("tp")).names == ("tp",)
