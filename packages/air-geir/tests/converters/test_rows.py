"""Converters that are rows: arguments by position, by name and by default, as the schema of the operator has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from air_geir import lower
from air_geir.converters._rows import register_direct
from air_geir.proof import check_call, trace

aten = torch.ops.aten
X = torch.linspace(-2, 2, 12).reshape(3, 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: aten.elu.default(x, 0.5),
        lambda x: aten.elu.default(x, alpha=2, input_scale=1.5),
        aten.glu.default,
        lambda x: aten.gelu_backward.default(x, x, approximate="tanh"),
        lambda x: aten.hardtanh_backward.default(x, x.flip(0), -1, 1),
        lambda x: aten.rsub.Tensor(x, x.flip(0), alpha=2),
        lambda x: aten.cumsum.default(x, 1, dtype=torch.float64),
    ],
)
def test_a_row_gives_what_eager_gives_however_its_arguments_are_passed(call: Callable[..., Any]) -> None:
    check_call(call, (X,), {})


def test_a_whole_number_is_a_fraction_where_the_attribute_is_one() -> None:
    graph = lower(trace(lambda x: aten.leaky_relu.default(x, 2), (X,)), (X,))
    (node,) = graph.of_type("LeakyRelu")
    assert type(node.attr("negative_slope")) is float


def test_a_row_with_an_attribute_that_its_operator_type_lacks_is_refused_at_once() -> None:
    with pytest.raises(KeyError, match="slope"):
        register_direct({"relu.default": ("Relu(self) {slope}", ())}, "activations")
