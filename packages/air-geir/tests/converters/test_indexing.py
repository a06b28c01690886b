"""Reading and writing by index where eager refuses, and where numbers of whole or complex type are averaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir.errors import UnsupportedGraphError
from air_geir.proof import check_call, compile_call

FROM_THE_END: dict[str, Callable[..., Tensor]] = {
    "rows": lambda x, i: x[i],
    "elements": lambda x, i: x[i, torch.zeros_like(i)],
    "index_put": lambda x, i: x.index_put((i,), torch.ones(())),
    "index_fill": lambda x, i: x.index_fill(0, i, 3.0),
    "take": lambda x, i: torch.take(x, i * 5),
}
NEVER_NEGATIVE: dict[str, Callable[..., Tensor]] = {
    "index_copy": lambda x, i: x.index_copy(0, i, torch.ones(1, 5)),
    "index_add": lambda x, i: x.index_add(0, i, torch.ones(1, 5)),
}


def refused(run: Callable[..., Any], *args: Tensor) -> bool:
    try:
        run(*args)
    except (IndexError, RuntimeError):
        return True
    return False


@pytest.mark.parametrize("place", [-9, -8, -6, -5, -4, -1, 3, 4])
@pytest.mark.parametrize("name", [*FROM_THE_END, *NEVER_NEGATIVE])
def test_a_place_before_the_first_is_refused_as_eager_refuses_it(name: str, place: int) -> None:
    function = (FROM_THE_END | NEVER_NEGATIVE)[name]
    x, index = torch.arange(20.0).reshape(4, 5), torch.tensor([place])
    compiled, tensors = compile_call(function, (x, torch.tensor([0])), {})
    tensors[-1].fill_(place)
    assert refused(compiled, *tensors) == refused(function, x, index)
    if not refused(function, x, index):
        check_call(function, (x, index), {})


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float16, torch.complex64], ids=str)
def test_a_mean_of_many_values_counts_them_as_eager_does(dtype: torch.dtype, include_self: bool) -> None:
    def mean(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
        return x.scatter_reduce(0, index, source, "mean", include_self=include_self)

    x, source = torch.tensor([5, 7, 9]).to(dtype), (torch.arange(200) % 3).to(dtype)
    check_call(mean, (x, torch.zeros(200, dtype=torch.int64), source), {})
    check_call(mean, (x, torch.arange(200) % 2, source), {})


WRITES: dict[str, Callable[..., Tensor]] = {
    "index_put": lambda x, i, v: x.index_put((i,), v),
    "index_copy": lambda x, i, v: x.index_copy(0, i, v),
}


@pytest.mark.parametrize("name", WRITES)
def test_values_of_another_type_are_left_to_eager_which_refuses_them(name: str) -> None:
    x, index, values = torch.zeros(4), torch.tensor([1, 2]), torch.ones(2, dtype=torch.float64)
    with pytest.raises(UnsupportedGraphError, match="cast the values"):
        compile_call(WRITES[name], (x, index, values), {})
    check_call(WRITES[name], (x, index, values.float()), {})


OF_ONE_ELEMENT: dict[str, Callable[..., Tensor]] = {
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i),
    "gather_single": lambda x, i: x.gather(0, i.reshape(())),
}


@pytest.mark.parametrize("place", [-2, -1, 0, 1])
@pytest.mark.parametrize("name", OF_ONE_ELEMENT)
def test_a_tensor_without_axes_has_one_place(name: str, place: int) -> None:
    function, x, index = OF_ONE_ELEMENT[name], torch.tensor(7.0), torch.tensor([place])
    compiled, tensors = compile_call(function, (x, torch.tensor([0])), {})
    tensors[-1].fill_(place)
    assert refused(compiled, *tensors) == refused(function, x, index) == (place != 0)
    check_call(function, (x, torch.tensor([0])), {})


def test_an_index_without_axes_takes_one_row() -> None:
    check_call(lambda x, i: x.index_select(1, i), (torch.randn(3, 4), torch.tensor(2)), {})


ROWS: dict[str, Callable[..., Tensor]] = {
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "index_select": lambda x, i: x.index_select(0, i),
    "columns": lambda x, i: x.index_select(1, i),
    "gather": lambda x, i: x.gather(0, i[:, None]),
}


@pytest.mark.parametrize("place", [-5, -4, -1, 0, 3, 4])
@pytest.mark.parametrize("name", ROWS)
def test_rows_are_not_counted_from_the_end(name: str, place: int) -> None:
    function, x, index = ROWS[name], torch.arange(16.0).reshape(4, 4), torch.tensor([place])
    compiled, tensors = compile_call(function, (x, torch.tensor([0])), {})
    tensors[-1].fill_(place)
    assert refused(compiled, *tensors) == refused(function, x, index) == (place not in range(4))
