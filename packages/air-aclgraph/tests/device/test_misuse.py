"""What a program may not do inside a capture: cause, line and advice, and then the next call works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from aclgraph_backend import Backend
from air_aclgraph import AcceleratorRuntime
from air_aclgraph.errors import AclGraphError


def module(x: Tensor) -> Any:
    """torch's module of the device of a tensor."""
    return torch.get_device_module(x.device.type)


def reads_a_value(x: Tensor) -> None:
    x.sum().item()


def synchronises_its_stream(x: Tensor) -> None:
    module(x).current_stream().synchronize()


def never_comes_back(x: Tensor) -> None:
    side = module(x).Stream()
    side.wait_stream(module(x).current_stream())
    with module(x).stream(side):
        x.add(1)


MISUSE: dict[str, Callable[[Tensor], None]] = {}


@torch.library.custom_op("air_aclgraph_test::misuses", mutates_args=())
def misuses(x: Tensor) -> Tensor:
    """`x + 1`, and what the test at hand puts beside it."""
    for misuse in MISUSE.values():
        misuse(x)
    return x + 1


misuses.register_fake(torch.empty_like)


@pytest.mark.parametrize(
    ("misuse", "code", "cause"),
    [
        (reads_a_value, "107027", "synchronised, queried or destroyed by the host"),
        (synchronises_its_stream, "107027", "synchronised, queried or destroyed by the host"),
        (never_comes_back, "107025", "never came back"),
    ],
)
def test_it_is_refused_with_cause_and_advice_and_the_next_call_works(
    accelerator: str, misuse: Callable[[Tensor], None], code: str, cause: str
) -> None:
    """Codes and causes are CANN's; of CUDA's own words only that the capture failed is asked."""

    def step(x: Tensor) -> Tensor:
        result: Tensor = torch.ops.air_aclgraph_test.misuses(x * 2) * 3  # the line of the misuse
        return result

    backend = Backend(accelerator, AcceleratorRuntime(f"{accelerator}:0"), air__warmup=0)
    compiled = torch.compile(step, backend=backend)
    x = torch.ones(4, device=accelerator)
    MISUSE["it"] = misuse
    told = cause if accelerator == "npu" else "captur"
    try:
        with torch.no_grad(), pytest.raises(AclGraphError, match=told) as caught:
            compiled(x)
    finally:
        MISUSE.clear()
    assert accelerator != "npu" or code in str(caught.value)
    assert caught.value.advice
    if misuse is not never_comes_back:  # which shows at the end of the capture only
        assert "# the line of the misuse" in str(caught.value)
    assert torch.rand(2, device=accelerator).isfinite().all(), "no capture is left open"
    with torch.no_grad():
        for _ in range(3):
            assert compiled(x).tolist() == [9.0] * 4
    assert torch.rand(2, device=accelerator).isfinite().all()
    assert backend.only.stats()["capture_failures"] == 1
    assert backend.only.stats()["captures"] == 1
