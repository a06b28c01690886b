"""Reductions over axes and numbers at which meanings differ."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from air_geir.proof import check_call


@pytest.mark.parametrize("function", [torch.any, torch.all])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float32], ids=str)
def test_any_and_all_over_an_empty_list_of_axes_reduce_nothing(
    function: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    x = torch.tensor([[0, 1, 0], [1, 1, 0]]).to(dtype)
    check_call(lambda x: (function(x, dim=()), function(x, dim=(), keepdim=True)), (x,), {})
    check_call(lambda x: (function(x, dim=None), function(x, dim=(0, 1), keepdim=True)), (x,), {})
