"""Layers of attention that torch runs as one operator in eval mode become operators of the graph, with its values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir.proof import check_call

WIDTH, HEADS, INNER = 8, 2, 16
LATER = torch.ones(4, 4, dtype=torch.bool).triu(1)
LENGTHS = torch.tensor([[False, False, False, True], [False, False, True, True]])
MASKS = {
    "none": (None, None),
    "places": (LATER, 0),
    "rows": (LENGTHS, 1),
    "every head": (LATER | LENGTHS[:, None, None, :].expand(2, HEADS, 4, 4), 2),
    "numbers": (LENGTHS.float(), 1),
}
masked = pytest.mark.parametrize(("mask", "mask_type"), MASKS.values(), ids=MASKS)


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def projections() -> tuple[Tensor, ...]:
    return numbers(3 * WIDTH, WIDTH), numbers(3 * WIDTH), numbers(WIDTH, WIDTH), numbers(WIDTH)


def check_encoder(
    use_gelu: bool, norm_first: bool, mask: Tensor | None = None, kind: int | None = None
) -> None:
    norms = (numbers(WIDTH), numbers(WIDTH), numbers(WIDTH) + 1, numbers(WIDTH) - 1)
    inner = (numbers(INNER, WIDTH), numbers(INNER), numbers(WIDTH, INNER), numbers(WIDTH))
    given = (use_gelu, norm_first, 1e-5, *norms, *inner, mask, kind)
    operator = torch.ops.aten._transformer_encoder_layer_fwd.default
    check_call(operator, (numbers(2, 4, WIDTH), WIDTH, HEADS, *projections(), *given), {})


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("use_gelu", [False, True])
def test_a_layer_of_an_encoder_is_converted(use_gelu: bool, norm_first: bool) -> None:
    check_encoder(use_gelu, norm_first)


@masked
def test_a_layer_of_an_encoder_leaves_out_what_its_mask_says(
    mask: Tensor | None, mask_type: int | None
) -> None:
    check_encoder(False, False, mask, mask_type)


def check_attention(*inputs: Tensor, **given: Any) -> None:
    operator = torch.ops.aten._native_multi_head_attention.default
    check_call(operator, (*inputs, WIDTH, HEADS, *projections()), given)


@masked
def test_attention_leaves_out_what_its_mask_says(mask: Tensor | None, mask_type: int | None) -> None:
    x = numbers(2, 4, WIDTH)
    check_attention(x, x, x, mask=mask, mask_type=mask_type)


@pytest.mark.parametrize("average", [False, True])
def test_attention_gives_its_weights_for_each_head_or_their_mean(average: bool) -> None:
    x = numbers(2, 4, WIDTH)
    check_attention(x, x, x, average_attn_weights=average)


def test_attention_over_something_else_is_converted() -> None:
    x, other = numbers(2, 4, WIDTH), numbers(2, 4, WIDTH) * 2
    check_attention(x, other, other)


def test_attention_whose_weights_nobody_needs_is_converted() -> None:
    x = numbers(2, 4, WIDTH)
    operator = torch.ops.aten._native_multi_head_attention.default
    own = projections()
    check_call(lambda y: operator(y, y, y, WIDTH, HEADS, *own, need_weights=False)[0], (x,), {})
