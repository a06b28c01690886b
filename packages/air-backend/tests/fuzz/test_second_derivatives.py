"""Every operator of torch's own table that is differentiable twice is so through a compiled function.

Each sample's gradients are differentiated once more, and both are held to eager's.  What cannot be had is an error.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from against_eager import DRAWN_OR_UNWRITTEN
from air_backend import _records
from air_backend.eager_calls import SecondDerivativeRefused

pytestmark = pytest.mark.slow
MODES = ("reduce-overhead", "max-autotune")
SAMPLES = 2
SHARDS = 4
REFUSED = "refused"
REFUSED_AT_MOST = 0.05
Gradients = list[Tensor | None]


class Sample(NamedTuple):
    """A call of an operator, and what it is called."""

    name: str
    call: Callable[..., Any]
    operands: Any


def samples(shard: int) -> Iterator[Sample]:
    from torch.testing._internal.common_methods_invocations import op_db  # seconds, and the test is slow

    chance = random.Random(shard)
    for operator in op_db[shard::SHARDS]:
        is_twice = operator.supports_autograd and operator.supports_gradgrad
        is_left_out = any(part in operator.name for part in DRAWN_OR_UNWRITTEN)
        if not is_twice or is_left_out or torch.float64 not in operator.dtypes:
            continue
        name = f"{operator.name} {operator.variant_test_name}".strip()
        known = list(operator.sample_inputs("cpu", torch.float64, requires_grad=True))
        for sample in chance.sample(known, min(SAMPLES, len(known))):
            operands = sample.input, sample.args, sample.kwargs
            yield Sample(name, partial(_called, operator), operands)


def _called(operator: Any, first: Any, args: Any, kwargs: Any) -> Any:
    return operator(first, *args, **kwargs)


def weight_of(result: Tensor) -> Tensor:
    """Another number for each element, so that none is like another."""
    numbers = torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64)
    return numbers.reshape(result.shape).to(result.dtype)


def derivatives(call: Callable[..., Any], operands: Any) -> tuple[Gradients, Gradients] | None:
    """The first and the second gradients for all operands that have some; None where nothing has one."""
    given = tree_map_only(Tensor, lambda x: x.detach().clone().requires_grad_(x.requires_grad), operands)
    inputs = [x for x in tree_leaves(given) if isinstance(x, Tensor) and x.requires_grad]
    torch.manual_seed(0)
    results = [x for x in tree_leaves(call(*given)) if isinstance(x, Tensor) and x.requires_grad]
    if not results or not inputs:
        return None
    weights = [weight_of(x) for x in results]
    first: Any = torch.autograd.grad(results, inputs, weights, create_graph=True, allow_unused=True)
    again = [x for x in first if x is not None and x.requires_grad]
    plain: Gradients = [None if x is None else x.detach().clone() for x in first]
    if not again:
        return plain, [None] * len(inputs)
    squares = [x.pow(2).real.sum() if x.is_complex() else x.pow(2).sum() for x in again]
    return plain, list(torch.autograd.grad(squares, inputs, allow_unused=True))


def is_same(expected: Tensor | None, found: Tensor | None) -> bool:
    """No gradient is one of zeros."""
    if expected is None or found is None:
        one = found if expected is None else expected
        return one is None or not bool(one.abs().sum() > 1e-12)
    return expected.shape == found.shape and torch.allclose(
        expected, found, rtol=1e-4, atol=1e-6, equal_nan=True
    )


def difference_of(sample: Sample, mode: str) -> str | None:
    try:
        expected = derivatives(sample.call, sample.operands)
    except RuntimeError:  # eager has no second derivative of this sample
        return None
    if expected is None:
        return None
    torch._dynamo.reset()
    _records.close_all()
    run: Any = torch.compile(sample.call, backend="air", options={"mode": mode}, dynamic=False)
    try:
        found = [derivatives(run, sample.operands) for _ in range(2)]
    except SecondDerivativeRefused:
        return REFUSED
    except Exception as error:
        return f"{sample.name}: {type(error).__name__}: {error}"
    for which in found:
        assert which is not None
        for name, theirs, mine in zip(("first", "second"), expected, which, strict=True):
            if not all(map(is_same, theirs, mine)):
                return f"{sample.name}: another {name} derivative"
    return None


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore")
def test_every_operator_is_differentiated_twice_as_in_eager(mode: str, shard: int) -> None:
    found = [difference_of(sample, mode) for sample in samples(shard)]
    assert len(found) > 100
    assert [text for text in found if text not in (None, REFUSED)] == []
    assert found.count(REFUSED) <= REFUSED_AT_MOST * len(found)
