"""Parameters that are put in the place of others leave nothing behind, and nothing forbids to swap them."""

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


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_parameters_can_be_swapped(mode: str, device: str) -> None:
    """As `Module.to` does it for tensor classes and DTensor: torch refuses what any weak reference points to."""
    model = nn.Linear(4, 4).to(device)
    run = torch.compile(model, backend="air", options={"mode": mode})
    for number in range(4):
        for grad in (False, True, False):
            x = torch.randn(2, 4, device=device)
            with torch.set_grad_enabled(grad):
                torch.testing.assert_close(run(x), model(x))
        torch.utils.swap_tensors(model.weight, nn.Parameter(torch.full((4, 4), float(number), device=device)))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_a_module_is_converted_by_swapping(mode: str) -> None:
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model = nn.Linear(4, 4)
        run = torch.compile(model, backend="air", options={"mode": mode})
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            model.to(dtype)
            x = torch.randn(2, 4, dtype=dtype)
            torch.testing.assert_close(run(x), model(x))
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
