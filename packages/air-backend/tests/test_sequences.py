"""Sequences of calls and of what programs do between them give what eager gives, in both modes, on every device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sequences import SEQUENCES


def hold(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for at, (one, other) in enumerate(zip(found, expected, strict=True)):
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4, msg=f"{at}: {{}}".format)
        else:
            assert one == other, at


@pytest.mark.sampled(5)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.filterwarnings("ignore")
def test_a_sequence_gives_what_eager_gives(name: str, mode: str, device: str) -> None:
    torch.manual_seed(0)
    expected = SEQUENCES[name](lambda function: function, device)
    torch.manual_seed(0)
    options: dict[str, Any] = {"mode": mode}
    hold(SEQUENCES[name](lambda f: torch.compile(f, backend="air", options=options), device), expected)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.filterwarnings("ignore")
def test_calls_from_other_streams_wait_for_what_those_were_given_and_are_waited_for(
    accelerator: str, mode: str
) -> None:
    step = torch.compile(lambda x: (x @ x) * 2 + 1, backend="air", options={"mode": mode})
    identity = torch.eye(64).to(accelerator)
    step(identity)
    module: Any = torch.get_device_module(accelerator)
    streams = [module.Stream() for _ in range(2)]
    for number in range(1, 9):
        with module.stream(streams[number % 2]):
            x = identity.clone()
            for _ in range(20):
                x = x * 1.0 + 0.0  # what the call has to wait for
            result = step(x * number) + 0
        module.current_stream().wait_stream(streams[number % 2])
        torch.testing.assert_close(result.cpu(), torch.eye(64) * number**2 * 2 + 1)
