"""Kernels that are the reference of a card: what the reference does not compute is refused as any kernel refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from air_fxpasses.npu_cards import NotCovered
from air_geir.errors import EngineError
from air_geir.prototypes import get
from air_geir.reference.kernels import Operator, kernel_for

ONE = torch.ones(1, 2, 8)


def run(op_type: str, *values: Any, **attrs: Any) -> Any:
    found = kernel_for(op_type)
    assert found is not None
    values += (None,) * (len(get(op_type).inputs) - len(values))
    known = {spec.name: spec.default for spec in get(op_type).attrs if not spec.is_required}
    return found.factory(Operator(op_type, "here", known | attrs, 1))(*values)


def test_what_the_card_does_not_compute_is_refused_with_its_name() -> None:
    inputs = (ONE, [ONE], [ONE], *[None] * 4, torch.ones(1))
    with pytest.raises(EngineError, match="FusedInferAttentionScore: the argument dequant_scale1") as refused:
        run("FusedInferAttentionScore", *inputs, num_heads=1)
    assert isinstance(refused.value.__cause__, NotCovered)


def test_a_list_of_caches_is_refused_where_one_is_computed() -> None:
    with pytest.raises(EngineError, match="a list of caches cannot be computed"):
        run("FusedInferAttentionScore", ONE, [ONE, ONE], [ONE, ONE], num_heads=1)


def test_text_of_a_graph_that_was_read_from_a_file_is_text() -> None:
    plain = run("FusedInferAttentionScore", ONE, [ONE], [ONE], num_heads=1, input_layout="BSH")
    read = run("FusedInferAttentionScore", ONE, [ONE], [ONE], num_heads=1, input_layout=b"BSH")
    assert torch.equal(plain[0], read[0])


def test_an_attribute_that_no_argument_stands_for_is_refused_where_it_is_not_its_default() -> None:
    x, scale = torch.ones(2, 4), torch.ones(4)
    assert run("AscendQuantV2", x, scale, None, dst_type=2).dtype == torch.int8
    with pytest.raises(EngineError, match="AscendQuantV2: sqrt_mode=True is not supported"):
        run("AscendQuantV2", x, scale, None, dst_type=2, sqrt_mode=True)


def test_an_input_that_no_argument_stands_for_is_refused_where_it_is_fed() -> None:
    starts = [*[None] * 7, torch.zeros(1)]
    with pytest.raises(EngineError, match="FlashAttentionScore: one of the inputs"):
        run("FlashAttentionScore", ONE, ONE, ONE, *starts, head_num=1, input_layout="BSH")
