"""Views that torch's example values allow and torch_npu's memory does not: eager copies there, and so do graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.npu("torch_npu lays results out in its own way")


def turned_back(x: Tensor) -> Tensor:
    return (x.permute(2, 0, 1) + 1).permute(1, 2, 0)


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "flat": lambda x: turned_back(x).reshape(-1),
    "read twice": lambda x: (turned_back(x).reshape(-1) * 2, turned_back(x).flatten(1) + 1),
    "beside its base": lambda x: (turned_back(x).flatten(1), turned_back(x)),
    "written later": lambda x: turned_back(x).flatten(1).mul_(2),
    "product": lambda x: turned_back(x).flatten(1) @ x.flatten(1).t(),
    "of a view that fits": lambda x: turned_back(x)[:1].reshape(x.shape[1], -1).t().reshape(-1),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_N25_a_reshape_copies_where_the_memory_does_not_have_the_view(
    name: str, mode: str, dynamic: bool
) -> None:
    program = PROGRAMS[name]
    step = torch.compile(program, backend="air", options={"mode": mode}, dynamic=dynamic)
    for rows in (2, 3, 2):
        x = torch.randn(rows, 3, 4).to("npu")
        results, expected = step(x), program(x)
        several = isinstance(expected, tuple)
        for one, other in zip(*((results, expected) if several else ((results,), (expected,))), strict=True):
            torch.testing.assert_close(one, other)
            assert one.stride() == other.stride()


def test_what_lies_as_torch_says_is_not_copied() -> None:
    from air_backend import _records

    step = torch.compile(
        lambda x: (x + 1).reshape(-1) * 2, backend="air", options={"mode": "reduce-overhead"}
    )
    x = torch.randn(2, 3).to("npu")
    torch.testing.assert_close(step(x), (x + 1).reshape(-1) * 2)
    _, run = _records.alive()[-1]
    assert "clone" not in str(run.source)
