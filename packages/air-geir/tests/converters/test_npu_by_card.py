"""What is made of a card, beyond that its numbers are right."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from air_fxpasses import npu_ops
from air_geir.building import Context
from air_geir.building._sizes import Sizes
from air_geir.converters import find
from air_geir.converters.npu_by_card import by_card
from air_geir.errors import CannotConvert
from air_geir.ir import Graph

LIBRARY = torch.library.Library("npu", "FRAGMENT")


def context() -> Context:
    graph = Graph("made")
    return Context(graph, Sizes(graph, hosted=False))


@pytest.mark.parametrize(
    ("operator", "given"),
    [
        ("npu_moe_gating_top_k_softmax_v2", {"renorm": 1}),
        ("npu_moe_init_routing_v2", {"x_dtype": 1}),
        ("npu_quant_matmul", {"group_sizes": [1, 2, 3]}),
        ("npu_prompt_flash_attention", {"padding_mask": None}),
    ],
)
def test_an_argument_that_goes_nowhere_is_refused(operator: str, given: dict[str, Any]) -> None:
    converter = find(f"npu.{operator}.default")
    assert converter is not None
    ctx = context()
    tensor = ctx.const([1.0], torch.float32)
    with pytest.raises(CannotConvert, match=f"{next(iter(given))}.* has no operator here"):
        converter.function(
            ctx, tensor, tensor, tensor, **{k: tensor if v is None else v for k, v in given.items()}
        )


def test_one_value_that_is_computed_is_named_where_another_is_given() -> None:
    converter, ctx = find("npu.npu_quant_scatter_.default"), context()
    assert converter is not None
    cache, scale = ctx.const([1], torch.int8), ctx.const([1.0], torch.float32)
    with pytest.raises(CannotConvert, match="reduce 'add' has no operator here") as refused:
        converter.function(ctx, cache, cache, scale, scale, reduce="add")
    assert "reduce='update'" in str(refused.value)


def test_a_layout_that_ascend_ir_has_no_number_for_is_refused_with_those_it_has() -> None:
    converter, ctx = find("npu.npu_apply_rotary_pos_emb.default"), context()
    assert converter is not None
    x = ctx.const([1.0], torch.float32)
    with pytest.raises(CannotConvert, match="layout 'SHB' is unknown") as refused:
        converter.function(ctx, x, x, x, x, "SHB")
    assert "BSND, BSH, SBND, BNSD, TND" in str(refused.value)


def test_an_operator_that_torch_npu_has_with_other_arguments_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    LIBRARY.define("npu_drifted(Tensor x, int other) -> Tensor")
    monkeypatch.setitem(npu_ops.SCHEMAS, "npu_drifted", "npu::npu_drifted(Tensor x, int recorded) -> Tensor")
    by_card("npu_drifted")(lambda ctx, x, recorded: x)
    assert find("npu.npu_drifted.default") is None
    assert "npu.npu_drifted.default is left out" in caplog.text
