"""Reading and writing by index where eager refuses, and where numbers of whole or complex type are averaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

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
