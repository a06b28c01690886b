"""Parameters that are put in the place of others, by `load_state_dict(assign=True)`, leave nothing behind."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_parameters_that_were_replaced_are_freed_and_take_no_capture_of_their_own(mode: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    run = torch.compile(model, backend="air", options={"mode": mode})
    replaced = []
    for number in range(6):
        other = {name: torch.full_like(value, number) for name, value in model.state_dict().items()}
        replaced += [weakref.ref(value) for value in model.parameters()]
        model.load_state_dict(other, assign=True)
        x = torch.randn(2, 4)
        result = run(x)
        torch.testing.assert_close(result, model(x))
        result.sum().backward()
        del result
        gc.collect()
    assert [one() for one in replaced] == [None] * len(replaced)
