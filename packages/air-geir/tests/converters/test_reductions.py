"""Reductions over axes and numbers at which meanings differ."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from air_geir.proof import check_call, compile_call


@pytest.mark.parametrize("function", [torch.any, torch.all])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float32], ids=str)
def test_any_and_all_over_an_empty_list_of_axes_reduce_nothing(
    function: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    x = torch.tensor([[0, 1, 0], [1, 1, 0]]).to(dtype)
    check_call(lambda x: (function(x, dim=()), function(x, dim=(), keepdim=True)), (x,), {})
    check_call(lambda x: (function(x, dim=None), function(x, dim=(0, 1), keepdim=True)), (x,), {})


@pytest.mark.parametrize("size", [1e-30, 1e25, 1e30, 1e38])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_the_deviation_of_numbers_whose_squares_no_type_holds(size: float, dtype: torch.dtype) -> None:
    x = torch.tensor([[size, -size, 0.0], [size / 2, size / 3, size]], dtype=dtype)
    check_call(lambda x: (x.std(), x.std(1), x.std(0, keepdim=True), x.std(1, correction=0)), (x,), {})


def test_the_deviation_where_there_is_none_or_no_number() -> None:
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[2.0, 2.0, 2.0], [1.0, inf, 2.0], [1.0, nan, 2.0], [0.0, 0.0, 0.0]])
    check_call(lambda x: (x.std(1), x[:, :1].std(1), x.std(1, correction=3), x[0, 0].std()), (x,), {})
    check_call(lambda x: x[:, :0].std(1), (x,), {})


def test_the_deviation_of_whatever_a_mask_picks() -> None:
    run, _ = compile_call(lambda x, mask: x[mask].std(), (torch.ones(4), torch.ones(4) > 0), {}, dynamic=True)
    x = torch.tensor([1.0, 5.0, 2.0, 3.0])
    torch.testing.assert_close(run(x, x > 1)[0], x[x > 1].std())
    assert run(x, x > 9)[0].isnan()
