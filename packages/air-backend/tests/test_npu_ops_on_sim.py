"""The reference kernels of the `npu::` operators against torch_npu: the device (or air-sim) has the last word."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map_only

from air_fxpasses import npu_ops
from air_fxpasses.npu_ops.samples import Sample, samples
from npu_ops_on_device import assert_same, missing, moved, overload

pytestmark = [
    pytest.mark.npu("the operators are torch_npu's"),
    pytest.mark.skipif("torch_npu" not in sys.modules, reason="torch_npu is not loaded"),
]


def on_device(sample: Sample) -> tuple[list[Any], list[Any]]:
    """The results and the arguments afterwards."""
    args, kwargs = tree_map_only(torch.Tensor, moved, (sample.args, sample.kwargs))
    with missing():
        results = overload(sample.operator)(*args, **kwargs)
        return tree_flatten(tree_map_only(torch.Tensor, lambda x: x.cpu(), (results,)))[0], list(
            tree_map_only(torch.Tensor, lambda x: x.cpu(), args)
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
