"""Products of groups of rows become the NPU's operator, with the numbers of the operators they replace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import air_fxpasses.npu_ops  # noqa: F401 -- declares the operator
from air_fxpasses import Pipeline
from air_fxpasses.passes import ProductsOfExperts
from air_fxpasses.testing import functional_graph

SCHEMA = "(Tensor input, Tensor weight, Tensor offs) -> Tensor"
HERE = ProductsOfExperts(device_type="cpu")


def by_hand(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    """Row by row up to the end of each group; zeros after the last."""
    result = torch.zeros(len(input), weight.shape[2], dtype=input.dtype)
    start = 0
    for group, end in enumerate(offs.tolist()):
        result[start:end] = input[start:end] @ weight[group]
        start = end
    return result


@pytest.fixture
def grouped() -> Iterator[Any]:
    """The operator of transformers, which the library itself declares where it is loaded."""
    with torch.library._scoped_library("transformers", "FRAGMENT") as library:
        if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):
            library.define(f"grouped_mm_fallback{SCHEMA}")
            library.impl("grouped_mm_fallback", by_hand, "CPU")
            library.impl("grouped_mm_fallback", lambda x, w, _: x.new_empty(x.shape[0], w.shape[2]), "Meta")
        yield torch.ops.transformers.grouped_mm_fallback


def operands(dtype: torch.dtype = torch.float32, ends: tuple[int, ...] = (2, 2, 5)) -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    weight = torch.randn(len(ends), 4, 8).to(dtype).transpose(1, 2)
    return torch.randn(6, 8).to(dtype), weight, torch.tensor(ends, dtype=torch.int32)


def replaced(function: Any, *inputs: Tensor, is_dynamic: bool = False) -> tuple[Any, list[str], list[str]]:
    gm = functional_graph(function, *inputs, is_dynamic=is_dynamic)
    report = Pipeline([HERE]).run(gm, inputs)
    return gm, [str(node.target) for node in gm.graph.nodes], [refusal.reason for refusal in report.refusals]


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("ends", [(2, 2, 5), (0, 0, 0), (6, 6, 6), (1, 3, 6)])
def test_the_numbers_are_those_of_a_product_for_each_group_with_zeros_after_the_last(
    grouped: Any, ends: tuple[int, ...], is_dynamic: bool
) -> None:
    inputs = operands(ends=ends)
    gm, ops, _ = replaced(lambda *given: grouped(*given) * 2, *inputs, is_dynamic=is_dynamic)
    assert "npu.npu_grouped_matmul.default" in ops
    assert not any("grouped_mm_fallback" in op for op in ops)
    torch.testing.assert_close(gm(*inputs), by_hand(*inputs) * 2)


def test_the_operator_of_torch_leaves_rows_after_the_last_group_and_so_does_this() -> None:
    inputs = operands(torch.bfloat16, (2, 3, 6))
    gm, ops, _ = replaced(lambda x, w, ends: torch._grouped_mm(x, w, offs=ends), *inputs)
    assert "npu.npu_grouped_matmul.default" in ops
    assert not any("masked_fill" in op for op in ops)
    torch.testing.assert_close(gm(*inputs), by_hand(*inputs), rtol=1.6e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("function", "inputs", "reason"),
    [
        (
            lambda x, w, ends: torch._grouped_mm(x, w, offs=ends),
            (torch.ones(8, 16, dtype=torch.bfloat16).t(), torch.ones(8, 8, dtype=torch.bfloat16),
             torch.tensor([3, 8], dtype=torch.int32)),
            "groups of something else than rows",
        ),
        (
            lambda x, w: torch._grouped_mm(x, w),
            (torch.ones(2, 3, 8, dtype=torch.bfloat16), torch.ones(2, 8, 8, dtype=torch.bfloat16)),
            "no groups",
        ),
    ],
)  # fmt: skip
def test_what_has_no_such_form_stays_and_says_why(function: Any, inputs: Any, reason: str) -> None:
    _, ops, reasons = replaced(function, *inputs)
    assert "aten._grouped_mm.default" in ops
    assert any(reason in each for each in reasons)


def test_a_graph_of_another_device_is_left_alone(grouped: Any) -> None:
    inputs = operands()
    gm = functional_graph(lambda *given: grouped(*given), *inputs)
    assert not Pipeline([ProductsOfExperts()]).run(gm, inputs).modified
