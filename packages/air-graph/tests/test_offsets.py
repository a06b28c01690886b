"""Example values of scatters begin where their base begins, whatever torch's cache of fake results says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from air_graph import mend_offsets


def scattered(b: Tensor) -> Tensor:
    part = b[1:]
    return torch.select_scatter(part, part[0] + 1, 0, 0)[:, 1:]


def test_the_value_and_its_views_begin_where_eagers_do() -> None:
    b = torch.arange(24.0).view(4, 6)
    make_fx(scattered, tracing_mode="fake")(b)  # the cache of fake results knows it now
    gm = make_fx(scattered, tracing_mode="fake")(b)
    mend_offsets(gm)
    (scatter,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.select_scatter.default)
    assert scatter.meta["val"].storage_offset() == 6
    (result,) = gm.graph.output_node().all_input_nodes
    assert result.meta["val"].storage_offset() == scattered(b).storage_offset() == 7


def test_one_of_several_views_begins_where_eagers_does() -> None:
    def function(b: Tensor) -> Tensor:
        return scattered(b).chunk(2, 0)[1]

    b = torch.arange(36.0).view(6, 6)
    make_fx(function, tracing_mode="fake")(b)
    gm = make_fx(function, tracing_mode="fake")(b)
    mend_offsets(gm)
    (result,) = gm.graph.output_node().all_input_nodes
    assert result.meta["val"].storage_offset() == function(b).storage_offset()


@pytest.mark.skipif(
    torch.__version__ < "2.12", reason="torch 2.11 asks for that size itself when it traces the scatter"
)
def test_a_size_that_only_a_run_tells_is_not_asked_about() -> None:
    def function(x: Tensor) -> Tensor:
        rows = x.nonzero().t()
        return torch.slice_scatter(rows, rows.flip(0))

    shapes = ShapeEnv(allow_dynamic_output_shape_ops=True)
    with FakeTensorMode(shape_env=shapes) as mode:
        gm = make_fx(function)(mode.from_tensor(torch.arange(4)))
    mend_offsets(gm)
    (scatter,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.slice_scatter.default)
    assert scatter.meta["val"].storage_offset() == 0
