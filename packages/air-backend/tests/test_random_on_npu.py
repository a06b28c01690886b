"""Which operators of torch_npu draw random numbers, and those that do so on a stream of their own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload

from air_backend.errors import GraphSplit
from air_graph import call_draws

PROBABILITIES = {"keep_prob": 1.0, "dropout": 0.0, "dropout_prob": 0.0, "dropout_p": 0.0}
#: A gradient is given what the forward drew, and a size of a workspace is no draw.
DRAW_NOTHING = ("backward", "grad", "workspace")


def dropping() -> Iterator[tuple[OpOverload, str]]:
    names = {schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("npu::")}
    for name in sorted(names):
        packet = getattr(torch.ops.npu, name.removeprefix("npu::"))
        for overload in (getattr(packet, each) for each in packet.overloads()):
            known = [
                argument.name for argument in overload._schema.arguments if argument.name in PROBABILITIES
            ]
            if known and not any(word in name for word in DRAW_NOTHING):
                yield overload, known[0]


@pytest.mark.npu("operators of torch_npu")
def test_every_operator_that_is_told_how_much_to_drop_draws_where_it_drops() -> None:
    found = dict(dropping())
    assert len(found) > 5
    assert [str(each) for each, name in found.items() if not call_draws(each, (), {name: 0.5})] == []
    nothing = {each for each, name in found.items() if not call_draws(each, (), {name: PROBABILITIES[name]})}
    assert nothing == set(found)


@pytest.mark.npu("operators of torch_npu")
@pytest.mark.parametrize("parallel", [True, False])
def test_a_mask_that_is_made_on_a_second_stream_is_made_between_pieces(parallel: bool) -> None:
    def masked(x: Tensor, seed: int) -> Tensor:
        mask: Tensor = torch.ops.npu._npu_dropout_gen_mask(x * 2, [17, 19], 0.7, seed, 100, parallel=parallel)
        return mask + 1

    torch._dynamo.reset()
    step = torch.compile(masked, backend="air", options={"mode": "reduce-overhead"})
    x = torch.randn(17, 19, device="npu")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", GraphSplit)
        for seed in (1, 2, 3):
            assert torch.equal(step(x, seed), masked(x, seed))
    told = [str(one.message) for one in said if one.category is GraphSplit]
    assert len(told) == parallel
    assert all("a stream of its own" in one for one in told)
