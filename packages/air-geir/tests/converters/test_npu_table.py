"""Every `npu::` operator with a card: converted, run by the reference engine, against its plain kernel.

A fused kernel of the reference engine calls the plain one, so what is compared is the way there and back: a card says
which argument goes where, a row of the kernels what each input means. The second opinion on the numbers is air-sim's.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from air_fxpasses import npu_ops
from air_fxpasses.npu_ops.samples import Sample, samples
from air_geir import prototypes
from air_geir.converters import all_converters, find, resolve
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
CARDS = [card for card in npu_ops.operators() if card.ir is not None]


@pytest.mark.parametrize("name", [c.target for c in all_converters() if c.target.startswith("npu.")])
def test_a_converter_says_what_the_recorded_schema_says(name: str) -> None:
    converter = find(name)
    assert converter is not None
    assert converter.function.__doc__ == RECORDED[name].removeprefix("npu::")
    schema = torch._C.parse_schema(RECORDED[name])
    assert converter.function.__dict__["arguments"] == [a.name for a in schema.arguments]


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_card_names_what_its_operator_type_and_its_schema_have(card: npu_ops.NpuOp) -> None:
    ir = card.ir
    assert ir is not None
    prototype = prototypes.get(ir.type)
    assert ir.takes.keys() <= {*prototype.input_index, *prototype.attr}
    outputs = {port.name for port in prototype.outputs}
    assert {*ir.gives, *(ir.writes or {}).values(), *ir.held, *ir.needs, *ir.typed_as} <= outputs
    named = {
        *(name for s in ir.takes.values() for name in npu_ops.arguments_of(s)),
        *ir.only,
        *ir.ignored,
        *(ir.writes or {}),
    }
    assert named - {"workspace"} <= {a.name for a in card.parsed.arguments}


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
