"""What calls an operator of torch_npu on a device and compares what it gives; what a device lacks is skipped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

#: What is missing on the other side, as the other side says it.
_MISSING = (
    "air-sim does not implement",
    "not implemented by air-sim",
    "not in libopapi.so",
    "has aclnn operators only",
)


def overload(name: str) -> Any:
    packet, _, which = name.partition(".")
    return getattr(getattr(torch.ops.npu, packet), which or "default")


@contextlib.contextmanager
def missing() -> Iterator[None]:
    """Skips where the other side says that it has no such thing."""
    try:
        yield
    except Exception as error:
        if any(text in str(error) for text in _MISSING):
            lines = str(error).splitlines()
            said = next(line for line in lines if any(text in line for text in _MISSING))
            pytest.skip(f"not on this device: {said[:200]}")
        raise


def moved(x: torch.Tensor) -> torch.Tensor:
    """A copy on the device that was turned as `x` was: torch_npu looks how packed weights lay before."""
    order = sorted(range(x.dim()), key=x.stride, reverse=True)
    back = sorted(range(x.dim()), key=order.__getitem__)
    return x.permute(order).contiguous().clone().to("npu").permute(back)


def tolerance(dtype: torch.dtype) -> tuple[float, float]:
    """Relative and absolute."""
    if not dtype.is_floating_point:
        return 0.0, 1.0 if dtype in (torch.int8, torch.uint8) else 0.0
    return (1e-5, 1e-5) if dtype == torch.float32 else (2e-2, 2e-2)


def assert_same(mine: Any, theirs: Any, what: str) -> None:
    if not isinstance(mine, torch.Tensor):
        return
    assert mine.dtype == theirs.dtype, what
    assert mine.shape == theirs.shape, what
    rtol, atol = tolerance(mine.dtype)
    torch.testing.assert_close(
        mine, theirs, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what}: {m}"
    )
