"""Norms in double precision: an attribute of 32 bits does not hold their epsilon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from air_geir.ir import DataType, Node
from air_geir.proof import check_call

aten = torch.ops.aten
NORMS: dict[str, Callable[..., Any]] = {
    "layer_norm": lambda x, eps: functional.layer_norm(x, [8], eps=eps),
    "group_norm": lambda x, eps: functional.group_norm(x, 2, eps=eps),
    "batch_norm": lambda x, eps: aten._native_batch_norm_legit_no_training(
        x, None, None, x.new_zeros(8), x.new_ones(8), 0.1, eps
    ),
}


def fractions(node: Node) -> list[float]:
    return [float(attr.value) for attr in node.attrs.values() if isinstance(attr.value, float)]


def compiled(name: str, x: Tensor, eps: float) -> set[str]:
    """The operator types that take an epsilon as an attribute, in a graph that gives what eager gives."""
    run = check_call(lambda x: NORMS[name](x, eps), (x,), {})
    return {node.op_type for node in run.program.graph if eps in fractions(node)}


@pytest.mark.parametrize("name", NORMS)
def test_the_epsilon_of_a_double_is_no_attribute_that_cuts_it_off(name: str) -> None:
    x = torch.randn(4, 8, dtype=torch.float64) * 1e-4
    assert not compiled(name, x, 1e-5)
    takes_doubles = name not in ("batch_norm", "group_norm")
    assert len(compiled(name, x, 2.0**-17)) == takes_doubles
    assert len(compiled(name, x.float(), 1e-5)) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_the_statistics_of_a_layer_norm_are_in_single_precision_whatever_its_input_is(
    dtype: torch.dtype,
) -> None:
    x = torch.randn(4, 8, dtype=dtype)
    run = check_call(lambda x: aten.native_layer_norm(x, [8], None, None, 1e-5), (x,), {})
    (norm,) = (node for node in run.program.graph if node.op_type == "LayerNormV4")
    assert [port.desc.dtype for port in norm.outputs[1:]] == [DataType.FLOAT] * 2
