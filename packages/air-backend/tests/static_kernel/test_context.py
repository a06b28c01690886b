"""What the rules of static kernels are told: nodes of different sizes are found without waiting for anybody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import distributed
from torch.fx.experimental.proxy_tensor import make_fx

from air_aclgraph import static_kernel
from air_backend import _context
from air_backend._context import context_of
from air_config import CompilerConfig, Context, RefusedOption, resolve
from air_config.errors import WrongValue


@pytest.fixture
def group() -> Iterator[None]:
    store = distributed.HashStore()  # type: ignore[attr-defined]  # not in the module's list of names
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_S11_the_first_rank_fixes_the_size_of_a_node_and_another_one_is_seen(
    group: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert static_kernel.local_world_sizes() == (4, 4)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert static_kernel.local_world_sizes() == (4, 2)
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
    graph = make_fx(lambda x: x + 1)(torch.ones(2))
    context = context_of(
        graph,
        [],
        torch.device("cpu"),
        multi_stream=False,
        buckets=False,
        training=False,
        static_kernels=True,
    )
    assert context.local_world_sizes == (4, 2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert static_kernel.local_world_sizes() == (4, 2), "those that were right are told at their next graph"
    sizes = Context(world_size=8, local_world_sizes=context.local_world_sizes)
    with pytest.raises(RefusedOption, match="must be the same on every node"):
        resolve(config, sizes).check()


def test_a_size_that_is_empty_counts_as_none(group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "")
    assert static_kernel.local_world_sizes() == ()


@pytest.mark.parametrize("text", ["two", "-1"])
def test_a_size_that_is_no_number_is_refused_by_name(
    group: None, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", text)
    with pytest.raises(WrongValue, match="LOCAL_WORLD_SIZE"):
        static_kernel.local_world_sizes()


def test_without_static_kernels_nothing_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        raise AssertionError("looked up")

    monkeypatch.setattr(_context, "_profiler", never)
    monkeypatch.setattr(static_kernel, "local_world_sizes", never)
    graph = make_fx(lambda x: x + 1)(torch.ones(2))
    context_of(graph, [], torch.device("cpu"), multi_stream=False, buckets=False, training=False)
