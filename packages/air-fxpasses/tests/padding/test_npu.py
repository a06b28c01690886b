"""Operators of `npu::`: what is proven is judged by their reference kernels, at two sizes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

import air_fxpasses.npu_ops  # noqa: F401  (declares the operators)
from air_fxpasses import Refusal
from air_fxpasses.npu_ops.samples import Sample, samples
from air_fxpasses.padding import Proof, prove
from padded_runs import accepts, check, symbols_of, traced

MORE = 3
PROVEN = (
    "npu_rms_norm", "npu_add_rms_norm", "npu_add_rms_norm_cast", "npu_swiglu", "npu_rotary_mul", "npu_dynamic_quant",
    "npu_geglu", "npu_gelu", "npu_fast_gelu", "fast_gelu", "npu_linear",
)  # fmt: skip
SAMPLES = [
    s for s in samples() if not s.operator.endswith("_") and "v2" not in s.operator and "." not in s.operator
]


def judged(sample: Sample) -> Counter[str]:
    """Judges what is proven of a sample, for each of its sizes."""
    leaves, spec = tree_flatten((sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    tensors = [leaves[i].clone() for i in places]
    operator = getattr(torch.ops.npu, sample.operator)

    def call(*given: Tensor) -> Any:
        own = list(leaves)
        for place, value in zip(places, given, strict=True):
            own[place] = value
        args, kwargs = tree_unflatten(own, spec)
        results = operator(*args, **kwargs)
        several = results if isinstance(results, (list, tuple)) else (results,)
        return tuple(one for i, one in enumerate(several) if i not in sample.unspecified)

    found: Counter[str] = Counter()
    gm = traced(call, *tensors)
    for symbol, value in symbols_of(gm).items():
        proof = prove(gm, symbol)
        if isinstance(proof, Proof) and accepts(gm, {**symbols_of(gm), symbol: value + MORE}):
            check(gm, proof, tensors, MORE)
            found["proven"] += 1
        elif isinstance(proof, Refusal):
            found["refused"] += 1
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_N11_what_is_proven_of_an_operator_of_the_npu_is_true(sample: Sample) -> None:
    found = judged(sample)
    plain = sample.label in ("", "interleave", "smooth", "middle")
    assert found["proven"] or sample.operator not in PROVEN or not plain, found


@pytest.mark.parametrize(
    "name", ["npu_dynamic_quant-pertensor", "npu_dynamic_quant-groups", "npu_rotary_mul-matrix"]
)
def test_N11_where_rows_share_something_nothing_is_proven_of_them(name: str) -> None:
    (sample,) = (sample for sample in SAMPLES if sample.name == name)
    assert not judged(sample)["proven"]


def test_N11_a_cache_is_written_at_places_in_several_dimensions() -> None:
    cache, updates = torch.rand(4, 10, 8), torch.rand(5, 8)
    places = torch.tensor([[0, 1], [3, 4], [2, 2], [1, 9], [0, 7]])
    inputs = [cache, places, updates]
    gm = traced(torch.ops.npu.npu_scatter_nd_update, *inputs)
    (rows,) = [symbol for symbol, value in symbols_of(gm).items() if value == 5]
    proof = prove(gm, rows)
    assert isinstance(proof, Proof), str(proof)
    assert proof.needs_copies
    check(gm, proof, inputs)
    width = [symbol for symbol, value in symbols_of(gm).items() if value == 8]
    assert all(isinstance(prove(gm, symbol), Refusal) for symbol in width)
