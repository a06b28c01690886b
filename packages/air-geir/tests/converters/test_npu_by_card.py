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
from air_geir.ir import Graph, Node

LIBRARY = torch.library.Library("npu", "FRAGMENT")


def context() -> Context:
    graph = Graph("made")
    return Context(graph, Sizes(graph, hosted=False))


@pytest.mark.parametrize(
    ("operator", "given"),
    [
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


def called(operator: str, results: list[torch.Tensor], tensors: int, **given: Any) -> list[Node]:
    """The nodes that a converter makes of a call that has these results; an argument given as "x" is a tensor."""
    converter = find(f"npu.{operator}.default")
    assert converter is not None
    ctx = context()
    x = ctx.const([[1.0, 2.0]], torch.float32)
    with ctx.converting(results):
        named = {name: x if value == "x" else value for name, value in given.items()}
        found = converter.function(ctx, *[x] * tensors, **named)
    return [value.port.node for value in found]


@pytest.mark.parametrize("wanted", [True, False])
def test_a_softmax_of_all_experts_is_asked_for_and_is_nothing_otherwise(wanted: bool) -> None:
    every = torch.empty(1, 2) if wanted else torch.empty(0)
    results = [torch.empty(1, 2), torch.empty(1, 2, dtype=torch.int32), every]
    gate, _, third = called(
        "npu_moe_gating_top_k_softmax_v2", results, 1, k=2, renorm=1, output_softmax=wanted
    )
    given = {name: attr.value for name, attr in gate.attrs.items()}
    assert given == {"k": 2, "renorm": 1, "output_softmax_result_flag": wanted}
    assert third.op_type == ("MoeGatingTopKSoftmaxV2" if wanted else "Fill")


def test_a_result_that_needs_an_argument_is_zeros_without_it() -> None:
    quantised = [torch.empty(1, 2, dtype=torch.int8), torch.empty(1, 2, dtype=torch.int8), torch.empty(1, 2)]
    once = called("npu_add_rms_norm_quant", quantised, 4)
    assert [node.op_type for node in once] == ["AddRmsNormQuant", "Fill", "AddRmsNormQuant"]
    twice = called("npu_add_rms_norm_quant", quantised, 4, scales2="x")
    assert [node.op_type for node in twice] == ["AddRmsNormQuant"] * 3


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
