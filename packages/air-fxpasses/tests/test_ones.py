"""Strides of dimensions of size 1 that torch's fake kernels do not predict."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from air_fxpasses._ones import are_predicted, has_ones

SLICE = torch.arange(5.0).view(1, 5).t()  # of the size (5, 1), with the strides (1, 5)
PROGRAMS: dict[str, tuple[Callable[[Tensor], Tensor], Tensor, bool]] = {
    "of fresh memory": (lambda b: (b + 1) * 2, torch.ones(5, 1), True),
    "of a turned input": (lambda b: (b + 1) * 2, SLICE, False),
    "behind a product": (lambda b: (b @ torch.ones(1, 1)) * 2, SLICE, True),
    "without such a dimension": (lambda b: (b + 1) * 2, torch.ones(5, 2).t(), True),
}


def value_of(node: fx.Node) -> Tensor | None:
    value = node.meta.get("val")
    return value if isinstance(value, Tensor) else None


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_known_where_all_that_a_value_is_made_of_lies_in_order(name: str) -> None:
    function, example, known = PROGRAMS[name]
    gm = make_fx(function, tracing_mode="fake")(example)
    (result,) = gm.graph.output_node().all_input_nodes
    assert are_predicted(result, value_of) is known


def test_a_tensor_has_ones_by_its_sizes() -> None:
    assert has_ones(torch.ones(2, 1))
    assert not has_ones(torch.ones(2, 3))
