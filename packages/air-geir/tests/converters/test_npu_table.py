"""Every `npu::` operator air-fxpasses declares: converted, run by the reference engine, against its plain kernel.

The two sides share no code: the kernels here go by operator type and by the operators' documentation.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from air_fxpasses import npu_ops
from air_fxpasses.npu_ops.samples import Sample, samples
from air_geir.converters import Converter, all_converters, find, resolve
from air_geir.proof import compile_call

SAMPLES = list(samples())
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}


def same(found: Any, expected: Any) -> None:
    if not isinstance(expected, torch.Tensor):
        assert found == expected
        return
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if expected.dtype == torch.int8:  # a quotient on the edge between two numbers may fall to either
        assert (found.int() - expected.int()).abs().amax() <= 1
        return
    tolerance = TOLERANCE.get(expected.dtype, 2e-5)
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


RECORDED = {
    f"npu.{name if '.' in name else name + '.default'}": text for name, text in npu_ops.SCHEMAS.items()
}
CONVERTERS = [
    c for c in all_converters() if c.target.startswith("npu.") and not hasattr(c.function, "arguments")
]
"""Those that do not take their arguments from another converter."""


@pytest.mark.parametrize("converter", CONVERTERS, ids=lambda c: c.target)
def test_a_converter_says_what_the_recorded_schema_says(converter: Converter) -> None:
    schema = torch._C.parse_schema(RECORDED[converter.target])
    stated = (converter.function.__doc__ or "").splitlines()[0]
    assert stated.partition("(")[2] == str(schema).partition("(")[2]
    parameters = list(inspect.signature(converter.function).parameters.values())[1:]
    for argument, parameter in zip(schema.arguments, parameters, strict=False):
        if argument.has_default_value() and parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            default = parameter.default
            assert argument.default_value == (list(default) if isinstance(default, tuple) else default)


@pytest.mark.parametrize("operator", npu_ops.operators(), ids=lambda op: op.name)
def test_every_declared_operator_has_a_converter_and_a_sample(operator: npu_ops.NpuOp) -> None:
    assert find(f"npu.{operator.overload}") is not None
    assert [s for s in SAMPLES if s.operator == operator.name]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_N03_a_declared_operator_gives_what_its_plain_kernel_gives(sample: Sample) -> None:
    op = resolve(f"npu.{npu_ops.row(sample.operator).overload}")
    assert op is not None
    plain_args, plain_kwargs = copy.deepcopy((sample.args, sample.kwargs))
    results = npu_ops.reference(sample.operator)(*plain_args, **plain_kwargs)
    run, tensors = compile_call(op, sample.args, sample.kwargs)
    given = [t.clone() for t in tensors]
    found = run(*given)
    for at, (one, expected) in enumerate(zip(found, pytree.tree_leaves(results), strict=True)):
        if at not in sample.unspecified:
            same(one, expected)
    if npu_ops.row(sample.operator).mutated:
        written = [t for t in pytree.tree_leaves((plain_args, plain_kwargs)) if isinstance(t, torch.Tensor)]
        for one, expected in zip(given, written, strict=True):
            same(one, expected)
