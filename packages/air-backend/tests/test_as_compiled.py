"""Whether a compiled graph of ATen operators serves a call: the state of torch, and the tensors of its module."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from air_backend._as_compiled import AsCompiled, asks_for_values_alone
from air_backend._kinds import kinds_of


def test_gradients_and_autocast_ask_for_more_than_values() -> None:
    plain, weight = torch.ones(2), torch.ones(2, requires_grad=True)
    assert asks_for_values_alone([plain, 3])
    assert not asks_for_values_alone([plain, weight])
    with torch.no_grad():
        assert asks_for_values_alone([plain, weight])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert not asks_for_values_alone([plain])


@torch.no_grad()
def test_a_tensor_of_the_module_is_the_one_of_the_compilation() -> None:
    layer, x = nn.Linear(3, 3), torch.ones(2, 3)
    graph = make_fx(layer, tracing_mode="fake", _allow_non_fake_inputs=True)(x)
    state = AsCompiled(graph, kinds_of(graph, [x]))
    assert state.serves([x])
    layer.weight.mul_(2)
    assert state.serves([x])
    layer.weight.data = torch.ones(3, 3).double()
    assert not state.serves([x])
    layer.weight.data = torch.ones(3, 3)
    assert state.serves([x])
    assert not state.serves([torch.ones(3, 2).t()])
    names = [node.target for node in graph.graph.find_nodes(op="get_attr")]
    setattr(graph, str(names[0]), nn.Parameter(torch.ones(3, 3)))
    assert not state.serves([x])
