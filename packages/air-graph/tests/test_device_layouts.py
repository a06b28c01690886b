"""Values as torch_npu lays them out: densely, but for what is copied as it lies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import DeviceLayouts


@pytest.mark.parametrize(
    ("function", "stride"),
    [
        (lambda x: x.t() + 1, (2, 1)),
        (lambda x: x.t().clone(), (1, 3)),
        (lambda x: (x.t() + 1).t(), (1, 2)),
        (lambda x: torch.ops.aten.fill.Scalar(x.t(), 1.0), (1, 3)),
        (lambda x: torch.diagonal_scatter(x.t(), x[0, :2]), (1, 3)),
        (lambda x: x.t().sort(-1).values.split(1)[1], (2, 1)),
        (lambda x: x.t().round(), (2, 1)),
        (lambda x: x.int().t().round(), (1, 3)),
        (lambda x: torch.gcd(x.int().t(), x.int().t()), (1, 3)),
    ],
    ids=[
        "a sum",
        "a copy",
        "a view of a sum",
        "a filled value",
        "a scatter",
        "a part of one of two results",
        "rounded",
        "a whole number rounded",
        "a common divisor",
    ],
)
def test_results_lie_densely_unless_they_are_copies(
    function: Callable[[Tensor], Tensor], stride: tuple[int, ...]
) -> None:
    gm = make_fx(function, tracing_mode="fake")(torch.zeros(2, 3))
    (result,) = gm.graph.output_node().all_input_nodes
    laid = DeviceLayouts("cpu").of(result)
    assert laid is not None
    assert laid.stride() == stride


def test_what_is_scattered_into_a_part_begins_where_the_part_begins() -> None:
    def function(x: Tensor) -> Tensor:
        part = x.unbind(1)[1]
        return torch.slice_scatter(part, part[1:] * 2, 0, 1)

    gm = make_fx(function, tracing_mode="fake")(torch.zeros(2, 3))
    (result,) = gm.graph.output_node().all_input_nodes
    laid = DeviceLayouts("cpu").of(result)
    assert laid is not None
    assert (laid.storage_offset(), laid.stride()) == (1, (3,))
