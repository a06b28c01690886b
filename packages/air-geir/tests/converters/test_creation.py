"""Tensors made from numbers that their type does not hold as they are."""

from __future__ import annotations

import pytest
import torch

from air_geir.errors import UnsupportedGraphError
from air_geir.proof import check_call, compile_call


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64], ids=str)
def test_bounds_of_whole_numbers_lose_their_fraction_first(dtype: torch.dtype) -> None:
    check_call(
        lambda: (torch.linspace(0.5, 10.7, 5, dtype=dtype), torch.linspace(9.9, 0, 7, dtype=dtype)), (), {}
    )


@pytest.mark.parametrize("bound", [300, -300, 255.5, -0.5, float("inf"), float("nan")])
def test_a_bound_that_the_type_cannot_hold_is_left_to_eager_which_refuses_it(bound: float) -> None:
    with pytest.raises(UnsupportedGraphError, match=r"outside torch\.uint8"):
        compile_call(lambda: torch.ops.aten.linspace(0, bound, 5, dtype=torch.uint8), (), {})
