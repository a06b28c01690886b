"""A squeeze that drops a dimension in some calls and keeps it in others: each call is what eager gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend.errors import GraphSplit

Function = Callable[[Tensor], Any]


def of_a_slice(x: Tensor) -> tuple[Tensor, ...]:
    rows = x[: int(x.count_nonzero()) % 2 + 1].squeeze()
    return rows, rows * 2, rows.sum(0)


def read_later(x: Tensor) -> tuple[Tensor, ...]:
    rows = x[: int(x.count_nonzero()) % 2 + 1].squeeze(0)
    total = (rows.sum(0) + x[0]) * 3
    return total, total.sum(0)


def of_found_rows(x: Tensor) -> tuple[Tensor, ...]:
    ids = x[:, 0].nonzero().squeeze()
    return ids.unsqueeze(0), x[ids].relu() + 1


def not_returned(x: Tensor) -> Tensor:
    rows = x[: int(x.count_nonzero()) % 2 + 1].squeeze()
    return torch.relu(rows.sum(0)) * 3


INPUTS = (torch.eye(4), torch.eye(4) - torch.diag(torch.tensor([1.0, 0, 0, 0])), torch.ones(4, 4))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("function", [of_a_slice, read_later, of_found_rows, not_returned])
def test_what_a_dropped_dimension_decides_is_as_eager_in_each_call(
    function: Function, mode: str, device: str
) -> None:
    of_data: Any = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    options: Any = {"mode": mode}
    compiled = torch.compile(function, backend="air", fullgraph=True, options=options)
    with torch._dynamo.config.patch(of_data), warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphSplit)
        for given in (*INPUTS, *INPUTS):
            x = given.to(device)
            torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0)


def warned_about(x: Tensor) -> Tensor:
    ids = x[:, 1].nonzero().squeeze()
    return x[ids] - 1


def test_the_warning_names_the_line_that_drops_it() -> None:
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.warns(GraphSplit) as told,
    ):
        torch.compile(warned_about, backend="air", options={"mode": "max-autotune"})(INPUTS[0])
    text = str(told[0].message)
    assert "whether it drops a dimension is only known when the graph runs" in text
    assert "ids = x[:, 1].nonzero().squeeze()" in text
