"""Every operator of torch's own table, on operands that lie unusually, gives what eager gives and lays it out so."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from against_eager import (
    CLOSE,
    DRAWN_OR_UNWRITTEN,
    difference,
    difference_of_one,
    gradients,
    layout_difference,
)
from air_graph.testing.stated import laid_out_anyhow

SHARDS = 4
OWN = "each its own"  # operands, and the gradients that are given


class Call(NamedTuple):
    """A sample of an operator, and how its operands are laid out."""

    operator: Any
    operands: Any
    layout: str
    seed: int = 0

    def fresh(self, chance: random.Random) -> Any:
        torch.manual_seed(0)
        return tree_map(lambda x: laid_out(x, self.layout, chance), self.operands)

    def in_double(self, function: Any) -> Any:
        """The same call of operands in double precision instead of half."""
        wide = tree_map(
            lambda x: x.double() if isinstance(x, Tensor) and x.dtype in CLOSE else x, self.operands
        )
        return self._replace(operands=wide).run(function)

    def run(self, function: Any) -> Any:
        """The results, and the gradients where there are some."""
        chance = random.Random(self.seed)
        operands = self.fresh(chance)
        results = function(*operands)

        def given(result: Tensor) -> Tensor:
            ones = torch.ones_like(result)
            return laid_out_anyhow(chance, ones) if self.layout == OWN else ones

        return results, gradients(results, operands, given), operands


def laid_out(x: Any, layout: str, chance: random.Random) -> Any:
    """The same values: axes turned round, at every other place behind an offset, channels last, or in any order."""
    if not isinstance(x, Tensor) or x.layout is not torch.strided:
        return x
    plain = x.detach()
    if layout == "turned" and x.dim() > 1:
        axes = tuple(reversed(range(x.dim())))
        made = plain.permute(axes).contiguous().permute(axes)
    elif layout == "apart" and x.numel():
        strides = [2 * stride for stride in plain.contiguous().stride()]
        made = plain.new_zeros(2 * x.numel() + 3).as_strided(x.shape, strides, 3).copy_(plain)
    elif layout == OWN:
        return laid_out_anyhow(chance, x)
    elif layout == "channels last" and x.dim() == 4:
        made = plain.contiguous(memory_format=torch.channels_last)
    else:
        made = plain.clone()
    return made.requires_grad_(x.requires_grad)


def calls(dtype: torch.dtype, trains: bool, shard: int) -> Iterator[Call]:
    from torch.testing._internal.common_methods_invocations import op_db  # seconds, and the test is slow

    chance = random.Random(shard)
    for operator in op_db[shard::SHARDS]:
        if dtype not in operator.dtypes or any(part in operator.name for part in DRAWN_OR_UNWRITTEN):
            continue
        if trains and not operator.supports_autograd:
            continue
        samples = list(operator.sample_inputs("cpu", dtype, requires_grad=trains))
        for sample in chance.sample(samples, min(3, len(samples))):
            layout = chance.choice(("turned", OWN, OWN, "apart", "channels last"))
            yield Call(operator, (sample.input, sample.args, sample.kwargs), layout, chance.randrange(1000))


def judged(call: Call, backend: str, options: dict[str, Any] | None) -> str:
    def function(first: Any, args: Any, kwargs: Any) -> Any:
        return call.operator(first, *args, **kwargs)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, options=options, dynamic=False)
    try:
        call.run(compiled)
        found = call.run(compiled)  # a replay
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    expected = call.run(function)
    told = difference(expected, found)
    return "" if told and is_nearer(call.in_double(function), expected, found) else told


def is_nearer(exact: Any, expected: Any, found: Any) -> bool:
    """Whether half precision is no further from the numbers in double precision than eager, which rounds in between."""
    leaves = [tree_leaves(each) for each in (exact, expected, found)]
    if len({len(each) for each in leaves}) > 1:
        return False
    for truth, theirs, mine in zip(*leaves, strict=True):
        if not difference_of_one(theirs, mine):
            continue
        if layout_difference(theirs, mine) or theirs.dtype not in CLOSE:
            return False
        errors = [(half.double() - truth.double()).abs().nan_to_num().max() for half in (theirs, mine)]
        if errors[1] > errors[0]:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize(
    ("dtype", "trains"),
    [
        (torch.float32, False),
        (torch.float32, True),
        (torch.complex64, False),
        (torch.bfloat16, False),
        (torch.int64, False),
        (torch.bool, False),
    ],
    ids=lambda each: {True: "trains", False: ""}.get(each, str(each)),
)
def test_N25_every_operator_gives_what_eager_gives_and_lays_it_out_so(
    dtype: torch.dtype, trains: bool, mode: str, shard: int
) -> None:
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls(dtype, trains, shard):
            try:
                call.run(lambda first, args, kwargs, op=call.operator: op(first, *args, **kwargs))
            except Exception:  # eager does not take this layout
                continue
            told = judged(call, "air", {"mode": mode})
            if told and not judged(call, "aot_eager", None):
                wrong.append(f"{call.operator.name}, {call.layout}: {told}")
    assert not wrong, "\n".join(wrong)
