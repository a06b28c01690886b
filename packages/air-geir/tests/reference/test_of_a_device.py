"""The reference engine takes tensors of a device: it computes on the host and gives them back where they belong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir import compile_graph
from air_geir.proof import trace

NPU = "npu"
PROGRAMS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, y: [x * 2 + y, y.sum()],
    "a constant of the device": lambda x, y: [x[torch.tensor([0, -1], device=x.device)], y],
    "a write to an argument": lambda x, y: [x.add_(y), y * 2],
    "a write to a part": lambda x, y: [x[1].copy_(y[0]), x + 1],
    "made of sizes": lambda x, y: [torch.arange(x.shape[0], device=x.device), x.new_ones(2)],
    "a view of an argument": lambda x, y: [x.t(), y.relu()],
}


@pytest.mark.npu("the arguments lie on a device")
@pytest.mark.parametrize("name", PROGRAMS)
def test_N16_the_reference_engine_serves_tensors_of_a_device(name: str) -> None:
    def given() -> list[Tensor]:
        return [torch.arange(6.0, device=NPU).reshape(2, 3), torch.ones(2, 3, device=NPU)]

    run = compile_graph(trace(PROGRAMS[name], given()), given(), engine="reference")
    for _ in range(2):
        ours, eagers = given(), given()
        found, expected = run(*ours), PROGRAMS[name](*eagers)
        torch.testing.assert_close(list(found), list(expected), rtol=0, atol=0)
        torch.testing.assert_close(ours, eagers, rtol=0, atol=0)
        assert {value.device.type for value in found} == {NPU}
