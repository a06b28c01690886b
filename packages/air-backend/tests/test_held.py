"""What a capture holds has to be, in a pinned call, what it was in the example: object, memory, form and value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import pin
from air_backend._held import Held
from air_backend.errors import PinnedArgument


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="air", mode="reduce-overhead", fullgraph=True)


def written(cache: Tensor, x: Tensor) -> Tensor:
    return cache.add_(x)


CHANGES: list[tuple[Callable[[Tensor], object], str]] = [
    (
        lambda k: k.t_(),
        r"another form, float32\[3, 3\] with strides \[1, 3\] and not float32\[3, 3\] with strides \[3, 1\]",
    ),
    (lambda k: k.unsqueeze_(0), r"another form, float32\[1, 3, 3\]"),
    (lambda k: k.as_strided_((3, 3), (0, 1)), r"another form, float32\[3, 3\] with strides \[0, 1\]"),
    (lambda k: k.resize_(2, 3), r"another form, float32\[2, 3\]"),
    (lambda k: k.resize_(64, 64).zero_(), r"another form, float32\[64, 64\]"),
    (
        lambda k: k.set_(torch.zeros(3, 3, device=k.device).untyped_storage(), 0, (3, 3), (3, 1)),
        "other memory",
    ),
    (lambda k: setattr(k, "data", torch.zeros(3, 3, device=k.device)), "other memory"),
]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(("change", "told"), CHANGES)
def test_a_held_argument_that_lies_otherwise_by_then_is_refused(
    change: Callable[[Tensor], object], told: str, mode: Callable[[], Any], device: str
) -> None:
    cache, x = torch.zeros(3, 3, device=device), torch.ones(3, 3, device=device)
    with torch.no_grad():
        step = pin(compiled(written), cache, x)
    with mode():
        for _ in range(2):
            step(cache, x)
    change(cache)
    before = cache.clone()
    with mode(), pytest.raises(PinnedArgument, match=f"argument 0 has {told}.* since; the capture holds"):
        step(cache, x)
    assert torch.equal(cache, before)


def test_values_written_into_a_held_argument_are_no_change_of_it(device: str) -> None:
    cache, x = torch.zeros(3, 3, device=device), torch.ones(3, 3, device=device)
    with torch.no_grad():
        step = pin(compiled(written), cache, x)
        cache.fill_(5)
        for _ in range(2):
            step(cache, x)
    assert cache.tolist() == [[7.0] * 3] * 3


@pytest.mark.parametrize("value", [math.nan, -0.0, complex(0, -0.0)])
def test_a_number_is_told_from_others_as_kernels_tell_it(value: complex) -> None:
    held = Held([value], [0])
    held.check([type(value)(str(value))])
    with pytest.raises(PinnedArgument, match="the capture was made for"):
        held.check([type(value)(0.0)])
