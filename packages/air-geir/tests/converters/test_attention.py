"""Attention as torch computes it on the CPU: what samples with one tolerance and random masks cannot show."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from air_geir.lowering import Expansions
from air_geir.proof import check_call, compile_call

FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def test_half_precision_is_computed_in_full_as_eager_does() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 2, 5, 16, dtype=torch.bfloat16) for _ in range(3))
    run, tensors = compile_call(FLASH, (query, key, value), {})
    exact = scaled_dot_product_attention(query.double(), key.double(), value.double())
    torch.testing.assert_close(
        run(*tensors)[0].double(), exact, atol=4e-3, rtol=8e-3
    )  # one rounding, to bfloat16
    assert [n for n in run.program.graph.of_type("SoftmaxV2") if n.output.desc.dtype.name != "FLOAT"] == []


@pytest.mark.skipif(
    torch.__version__ < "2.13", reason="torch traced float32 for what its kernel gives in float64"
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_double_precision_stays_double(dynamic: bool) -> None:
    query, key, value = (torch.randn(1, 2, 3, 4, dtype=torch.float64) for _ in range(3))
    check_call(FLASH, (query, key, value), {}, dynamic=dynamic)


def test_a_query_that_sees_no_key_attends_to_nothing() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 2, 3, 8) for _ in range(3))
    mask = torch.zeros(3, 3)
    mask[1] = float("-inf")

    def call(*given: Any) -> Any:
        return scaled_dot_product_attention(given[0], given[1], given[2], given[3])

    run, tensors = compile_call(call, (query, key, value, mask), {})
    found = run(*tensors)[0]
    torch.testing.assert_close(found, call(query, key, value, mask))
    assert not found[:, :, 1].any()


def test_attention_is_lowered_without_tracing_a_decomposition(monkeypatch: Any) -> None:
    monkeypatch.setattr(Expansions, "expand", None)
    query = torch.randn(1, 2, 3, 8)
    run, tensors = compile_call(scaled_dot_product_attention, (query, query, query), {})
    torch.testing.assert_close(run(*tensors)[0], scaled_dot_product_attention(query, query, query))


def test_a_safe_softmax_of_one_number_of_minus_infinity_is_zero() -> None:
    lowest = torch.tensor(float("-inf"))
    run, tensors = compile_call(torch.ops.aten._safe_softmax.default, (lowest, 0), {})
    assert run(*tensors)[0] == 0
