"""The reference kernels of the `npu::` operators against torch_npu: the device (or air-sim) has the last word."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map_only

from air_fxpasses import npu_ops
from air_fxpasses.npu_ops.samples import Sample, samples

pytestmark = [
    pytest.mark.npu("the operators are torch_npu's"),
    pytest.mark.skipif("torch_npu" not in sys.modules, reason="torch_npu is not loaded"),
]

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


def on_device(sample: Sample) -> tuple[list[Any], list[Any]]:
    """The results and the arguments afterwards."""
    args, kwargs = tree_map_only(torch.Tensor, moved, (sample.args, sample.kwargs))
    with missing():
        results = overload(sample.operator)(*args, **kwargs)
        return tree_flatten(tree_map_only(torch.Tensor, lambda x: x.cpu(), (results,)))[0], list(
            tree_map_only(torch.Tensor, lambda x: x.cpu(), args)
        )


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


@pytest.mark.parametrize("sample", list(samples()), ids=lambda s: s.name)
def test_reference_kernel_computes_what_the_device_computes(sample: Sample) -> None:
    results, arguments = on_device(sample)
    args, kwargs = tree_map_only(torch.Tensor, torch.clone, (sample.args, sample.kwargs))
    found = tree_flatten((npu_ops.reference(sample.operator)(*args, **kwargs),))[0]
    if "max_workspace" in sample.operator:
        return
    assert len(found) == len(results)
    for index, (mine, theirs) in enumerate(zip(found, results, strict=True)):
        if index not in sample.unspecified:
            assert_same(mine, theirs, f"result {index}")
    written = npu_ops.row(sample.operator).mutated
    names = [a.name for a in npu_ops.row(sample.operator).parsed.arguments]
    for name, mine, theirs in zip(names, args, arguments, strict=False):
        if name in written:
            assert_same(mine, theirs, f"argument {name}")
