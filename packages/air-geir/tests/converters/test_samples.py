"""Every converter against eager torch on its own samples, with static and with dynamic sizes."""

from __future__ import annotations

import pytest
import torch

from air_geir.converters import Converter, all_converters, resolve, schema_line
from air_geir.proof import check_converter

#: torch 2.11 says that the counts nobody asked for have another type, and so the operator is left to eager.
MISSTATED = {"aten._unique2.default"} if torch.__version__ < "2.12" else set()
WITH_SAMPLES = [c for c in all_converters() if c.samples and c.target not in MISSTATED]
UNTRACED = {"aten._standard_gamma_grad.default"}
"""torch has no fake kernel for them, and cannot trace them with dynamic sizes."""
PROVEN_ELSEWHERE = {
    "npu": "tests/converters/test_npu.py",
    "collectives": "tests/converters/test_collectives.py",
    "random": "tests/converters/test_random.py",
    "distributions": "tests/converters/test_distributions.py",
    "control_flow": "tests/lowering/test_control_flow.py",
    "inplace": "tests/lowering/test_writes.py",
    "printing": "tests/converters/test_printing.py",
}
UNDEFINED_RESULTS = {"aten.empty", "aten.empty_strided", "aten.empty_permuted", "aten.empty_like", "aten.new_empty",
                     "aten.new_empty_strided"}  # fmt: skip
PROVEN_APART = {"prims.fma"}
"""Defined by a part of torch that is loaded late: tests/converters/test_precision.py."""
SIZES_ONLY = {"aten._local_scalar_dense", "aten.sym_constrain_range_for_size", "aten.sym_constrain_range"}


@pytest.mark.parametrize("converter", WITH_SAMPLES, ids=lambda c: c.target)
def test_N03_a_converter_computes_what_eager_computes(converter: Converter) -> None:
    assert check_converter(converter.target) == len(converter.samples)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("converter", WITH_SAMPLES, ids=lambda c: c.target)
def test_N03_a_converter_computes_what_eager_computes_with_dynamic_sizes(converter: Converter) -> None:
    if converter.target in UNTRACED:
        pytest.skip("torch cannot trace it with dynamic sizes")
    assert check_converter(converter.target, dynamic=True) == len(converter.samples)


def test_every_converter_has_samples_or_a_test_elsewhere() -> None:
    """Operators of torch_npu: tests/converters/test_npu.py; of transformers: tests/test_experts.py."""
    without = [
        c
        for c in all_converters()
        if not c.samples
        and c.family not in PROVEN_ELSEWHERE
        and not c.target.startswith(("npu.", "transformers."))
        and c.target.rpartition(".")[0] not in UNDEFINED_RESULTS | SIZES_ONLY | PROVEN_APART
    ]
    assert [c.target for c in without] == []


@pytest.mark.skipif(torch.__version__ < "2.12", reason="collectives have other schemas in torch 2.11")
def test_the_first_line_of_a_docstring_is_the_schema() -> None:
    """Those of torch_npu's operators are compared with the recorded schemas: test_npu_table.py."""
    wrong = []
    for converter in all_converters():
        op = resolve(converter.target)
        line = (converter.function.__doc__ or "").splitlines()[0]
        if op is None or converter.target.startswith(
            ("npu.", "air_geir.")
        ):  # which has twins of some of them
            continue
        packet = op._schema.name.rpartition("::")[2]
        same = line.partition("(")[0] == schema_line(op).partition("(")[0]
        if same and "..." not in line and packet in line and line != schema_line(op):
            wrong.append((converter.target, line, schema_line(op)))
    assert wrong == []


def test_undefined_memory_is_the_same_every_time() -> None:
    from air_geir.proof import compile_call

    run, tensors = compile_call(lambda: torch.empty(3, 2), (), {})
    assert torch.equal(run(*tensors)[0], run(*tensors)[0])
