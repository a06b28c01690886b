"""Activations in double precision: the numbers of a call are attributes of 32 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from air_geir.ir import Node
from air_geir.proof import check_call

aten = torch.ops.aten
ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.1),
    "elu": lambda x: functional.elu(x, 0.1),
    "celu": lambda x: functional.celu(x, 0.1),
    "softplus": lambda x: functional.softplus(x, 0.3, 0.7),
    "hardshrink": lambda x: functional.hardshrink(x, 0.1),
    "softshrink": lambda x: functional.softshrink(x, 0.1),
    "nan_to_num": torch.nan_to_num,
    "leaky_relu_backward": lambda x: aten.leaky_relu_backward(x, x, 0.1, False),
    "elu_backward": lambda x: aten.elu_backward(x, 0.1, 1, 1, False, x),
    "hardtanh_backward": lambda x: aten.hardtanh_backward(x, x, -0.1, 0.1),
    "threshold_backward": lambda x: aten.threshold_backward(x, x, 0.1),
}


def cut_off(node: Node) -> list[str]:
    """The attributes that hold a fraction which a float of 32 bits does not."""
    numbers = {name: attr.value for name, attr in node.attrs.items() if isinstance(attr.value, float)}
    return [name for name, value in numbers.items() if float(torch.tensor(value)) != value]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_no_number_of_a_double_is_cut_off_in_an_attribute(name: str) -> None:
    x = torch.tensor([-2.0, -0.05, 0.05, 0.1, 3.0, float("inf")], dtype=torch.float64)
    run = check_call(ACTIVATIONS[name], (x,), {})
    found: dict[str, Any] = {node.op_type: cut_off(node) for node in run.program.graph}
    assert not any(found.values()), found


def test_a_number_that_an_attribute_holds_stays_one_operator() -> None:
    run = check_call(lambda x: functional.leaky_relu(x, 0.25), (torch.randn(5, dtype=torch.float64),), {})
    assert "LeakyRelu" in {node.op_type for node in run.program.graph}
