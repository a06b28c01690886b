"""Types of torch that Ascend IR does not have: what makes or reads them runs eagerly between compiled pieces."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from air_backend.errors import GraphSplit

UNKNOWN = (torch.float8_e5m2fnuz, torch.float8_e4m3fnuz)


def test_tensors_of_types_that_ascend_ir_lacks_are_read_and_made_by_torch() -> None:
    held = [torch.full((4,), 0.5).to(dtype) for dtype in UNKNOWN]

    def both(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        made = [(y * 2).to(dtype) for dtype in UNKNOWN]
        return x.float() * 2 + held[0].float(), held[1].float() + 1, y + 1, x, *made

    torch._dynamo.reset()
    compiled = torch.compile(both, backend="air", options={"mode": "max-autotune"})
    x, y = torch.ones(4).to(UNKNOWN[1]), torch.arange(4.0)
    with pytest.warns(
        GraphSplit, match=r"(?s)_to_copy.*Ascend IR has no torch.float8.*test_unknown_types.py"
    ):
        found = compiled(x, y)
    for ours, theirs in zip(found, both(x, y), strict=True):
        assert ours.dtype is theirs.dtype
        assert torch.equal(ours.float(), theirs.float())
