"""Where a tensor is, and how it lies there: strides that reach no second element mean nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from air_backend._layouts import Layout

CPU = torch.device("cpu")


class Own(Tensor):
    """A class of the user's."""


@pytest.mark.parametrize(
    ("value", "strides", "holds"),
    [
        (torch.ones(2, 3), (3, 1), True),
        (nn.Parameter(torch.ones(2, 3)), (3, 1), True),
        (torch.ones(3, 2).t(), (3, 1), False),
        (torch.ones(4, 3)[::4], (3, 1), True),
        (torch.ones(0, 3).t(), (1, 7), True),
        (torch.ones(2, 3), (None, 1), True),
        (torch.ones(2, 3, device="meta"), (3, 1), False),
        (torch.ones(2, 3).as_subclass(Own), (3, 1), False),
        (torch.eye(2).to_sparse(), (2, 1), False),
    ],
)
def test_a_layout_holds_for_what_operators_cannot_tell_apart(
    value: Tensor, strides: tuple[int | None, ...], holds: bool
) -> None:
    assert Layout(CPU, strides).holds_for(value) == holds
