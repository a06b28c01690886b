"""Writes through a mask, written so that a capture can hold them, with the same values."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_aclgraph import spare_the_host

aten = torch.ops.aten
CUDA = torch.device("cuda")
BASE = torch.arange(24.0).reshape(2, 3, 4)
MASK = torch.tensor([[True, False, True], [False, False, True]])


def check(function: Callable[..., Any], *inputs: Tensor, device: torch.device = CUDA) -> GraphModule:
    """The graph is written otherwise, for a device, and gives what it gave."""
    gm = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
    expected = gm(*inputs)
    assert spare_the_host(gm, device) == 1
    torch.testing.assert_close(gm(*inputs), expected)
    return gm


def targets(gm: GraphModule) -> set[Any]:
    return {node.target for node in gm.graph.nodes}


def put(x: Tensor, indices: list[Tensor | None], value: Tensor) -> Tensor:
    written: Tensor = aten.index_put.default(x, indices, value)
    return written


def test_a_row_written_through_a_mask_is_a_choice() -> None:
    gm = check(lambda x, mask, row: put(x, [mask], row), BASE, MASK, torch.randn(4))
    assert aten.where.self in targets(gm)
    assert aten.index_put.default not in targets(gm)


def test_one_element_written_through_a_mask_of_all_places_is_a_choice() -> None:
    check(lambda x, mask, value: put(x, [mask], value), BASE, BASE > 5, torch.tensor(-1.0))


def test_a_mask_of_later_dimensions_is_a_choice() -> None:
    check(lambda x, mask, value: put(x, [None, mask], value), BASE, BASE[0] > 5, torch.tensor(-1.0))


def test_a_mask_in_the_middle_keeps_what_lies_behind() -> None:
    check(lambda x, mask, value: put(x, [None, mask], value), BASE, MASK[0], torch.randn(4))


def test_a_new_node_has_the_place_and_the_example_value_of_the_old_one() -> None:
    gm = make_fx(lambda x, mask, v: put(x, [mask], v), tracing_mode="fake")(BASE, MASK, torch.tensor(0.0))
    (old,) = (node for node in gm.graph.nodes if node.target is aten.index_put.default)
    old.meta["stack_trace"] = "here"
    spare_the_host(gm, CUDA)
    (new,) = (node for node in gm.graph.nodes if node.target is aten.where.self)
    assert new.meta["stack_trace"] == "here"
    assert new.meta["val"].shape == BASE.shape


@pytest.mark.parametrize(
    "function",
    [
        lambda x, mask, rows: put(x, [mask], rows),
        lambda x, mask, rows: aten.index_put.default(x, [mask], rows[0], True),
        lambda x, mask, rows: put(x, [mask.nonzero()[:, 0], None], rows[0]),
    ],
    ids=["a row for each place", "added", "numbers"],
)
def test_a_write_that_is_not_the_same_at_all_places_is_left(function: Callable[..., Tensor]) -> None:
    gm = make_fx(function, tracing_mode="real")(BASE, MASK, torch.randn(3, 4))
    for node in gm.graph.nodes:
        node.meta.setdefault("val", torch.empty(3, 4))
    assert spare_the_host(gm, CUDA) == 0


def test_a_mask_that_lies_on_the_host_is_left() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        there = torch.empty(2, 3, 4, device="cuda")
        gm = make_fx(lambda x, mask: put(x, [mask], x.new_zeros(())))(there, MASK)
    assert spare_the_host(gm, CUDA) == 0
    assert aten.index_put.default in targets(gm)


def test_on_the_cpu_nothing_changes() -> None:
    gm = make_fx(lambda x, mask, v: put(x, [mask], v), tracing_mode="fake")(BASE, MASK, torch.tensor(0.0))
    assert spare_the_host(gm, torch.device("cpu")) == 0


def test_a_norm_without_statistics_is_the_operator_that_an_npu_has() -> None:
    def norm(x: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5)
        return found

    npu: Any = SimpleNamespace(type="npu")  # torch knows the name where torch_npu is installed
    gm = check(norm, torch.randn(2, 3, 4), device=npu)
    assert aten.native_batch_norm.default in targets(gm)
    assert spare_the_host(make_fx(norm, tracing_mode="fake")(torch.randn(2, 3, 4)), CUDA) == 0
