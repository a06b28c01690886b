"""Numbers beside tensors whose type does not hold them: they wrap where eager computes, and are refused elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from air_geir.errors import UnsupportedGraphError
from air_geir.proof import check_call, compile_call

FIRST = torch.tensor([0])
CONVERTS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "clamp": lambda x, n: x.clamp(0, n),
    "clamp_min": lambda x, n: x.clamp(min=n),
    "clamp_max": lambda x, n: x.clamp(max=n),
    "fill": torch.ops.aten.fill.Scalar,
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype),
    "full_like": torch.full_like,
    "new_full": lambda x, n: x.new_full((2,), n),
    "hardtanh": lambda x, n: torch.ops.aten.hardtanh(x, n, n),
    "index_fill": lambda x, n: x.index_fill(0, FIRST, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
    "pad": lambda x, n: torch.constant_pad_nd(x, (1, 1), n),
    "pow": lambda x, n: x**n,
    "scatter": lambda x, n: x.scatter(0, FIRST, n),
    "scatter_reduce": lambda x, n: x.scatter(0, FIRST, n, reduce="add"),
    "threshold": lambda x, n: functional.threshold(x, 1, n),
    "add_alpha": lambda x, n: torch.add(x, x, alpha=n),
}
OF_WHOLE: dict[str, Callable[[Tensor, float], Tensor]] = {
    "where": lambda x, n: torch.where(x > 1, x, n),
    "scalar_tensor": lambda x, n: torch.scalar_tensor(n, dtype=x.dtype),
    "threshold_bound": lambda x, n: functional.threshold(x, n, 1),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
}
BOTH = CONVERTS | OF_WHOLE


@pytest.mark.parametrize(
    ("name", "dtype", "number"),
    [
        *((name, torch.uint8, number) for name in BOTH for number in (300, -300)),
        *((name, torch.int8, 128) for name in BOTH),
        *((name, torch.float16, 1e5) for name in CONVERTS),
        *((name, torch.float32, 1e39) for name in CONVERTS if name != "pow"),
    ],
    ids=str,
)
def test_a_number_that_eager_does_not_convert_is_left_to_eager(
    name: str, dtype: torch.dtype, number: float
) -> None:
    x = torch.tensor([1, 2]).to(dtype)
    function = BOTH[name]
    with pytest.raises(RuntimeError):
        function(x, number)
    with pytest.raises((UnsupportedGraphError, RuntimeError)):
        compile_call(lambda x: function(x, number), (x,), {})


@pytest.mark.parametrize("name", [name for name in BOTH if name not in ("hardtanh", "pow")])
def test_a_negative_number_stands_for_its_complement_as_in_eager(name: str) -> None:
    x = torch.tensor([1, 2], dtype=torch.uint8)
    check_call(lambda x: BOTH[name](x, -1), (x,), {})


@pytest.mark.parametrize("name", ["where", "scalar_tensor", "addcmul"])
def test_a_half_becomes_infinite_where_eager_lets_it(name: str) -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.float16)
    check_call(lambda x: BOTH[name](x, 1e5), (x,), {})


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64], ids=str)
def test_a_negative_power_of_whole_numbers_is_left_to_eager(dtype: torch.dtype) -> None:
    x = torch.tensor([1, 2], dtype=dtype)
    with pytest.raises(UnsupportedGraphError, match="negative powers"):
        compile_call(lambda x: x**-1, (x,), {})
