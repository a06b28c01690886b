"""Types of torch that Ascend IR does not have: what makes or reads them runs eagerly between compiled pieces."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from air_backend.errors import GraphSplit

UNKNOWN = (torch.float8_e5m2fnuz, torch.float8_e4m3fnuz)


@pytest.mark.parametrize("dtype", UNKNOWN, ids=str)
def test_a_tensor_of_a_type_that_ascend_ir_lacks_is_read_and_made_by_torch(dtype: torch.dtype) -> None:
    held = torch.full((4,), 0.5).to(dtype)

    def both(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x.float() * 2 + held.float(), (y * 2).to(dtype), y + 1, x

    torch._dynamo.reset()
    compiled = torch.compile(both, backend="air", options={"mode": "max-autotune"})
    x, y = torch.ones(4).to(dtype), torch.arange(4.0)
    with pytest.warns(GraphSplit, match=f"(?s)_to_copy.*Ascend IR has no {dtype}.*test_unknown_types.py"):
        found = compiled(x, y)
    for ours, theirs in zip(found, both(x, y), strict=True):
        assert ours.dtype is theirs.dtype
        assert torch.equal(ours.float(), theirs.float())
