"""Which operators of torch_npu draw random numbers: each one that is told how much to drop is known to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch._ops import OpOverload

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
