"""A copied graph changes alone, and shares what it refers to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import duplicate


def traced() -> GraphModule:
    weight = torch.ones(3)

    def inner(x: Tensor) -> Tensor:
        return x + weight

    def outer(x: Tensor, flag: Tensor) -> Any:
        return torch.cond(flag, inner, lambda x: x * 2, (x,))

    return make_fx(outer)(torch.ones(3), torch.tensor(True))


def graphs_of(module: GraphModule) -> list[GraphModule]:
    return [each for each in module.modules() if isinstance(each, GraphModule)]


def test_a_copy_computes_what_the_graph_does() -> None:
    module = traced()
    module.meta["kept"] = 1
    copy = duplicate(module)
    for flag in (True, False):
        args = torch.arange(3.0), torch.tensor(flag)
        assert torch.equal(copy(*args), module(*args))
    assert copy.meta == {"kept": 1}
    assert [node.meta.keys() for node in copy.graph.nodes if node.op != "output"] == [
        node.meta.keys() for node in module.graph.nodes if node.op != "output"
    ]


def test_a_change_to_a_copy_and_to_the_graphs_in_it_stays_there() -> None:
    module = traced()
    before = [each.code for each in graphs_of(module)]
    copies = graphs_of(duplicate(module))
    assert len(copies) == len(before) == 3
    for each in copies:
        for node in each.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
            node.target = torch.ops.aten.sub.Tensor
        each.recompile()
    assert [each.code for each in graphs_of(module)] == before
    assert torch.equal(copies[0](torch.ones(3), torch.tensor(True)), torch.zeros(3))


def test_tensors_are_shared() -> None:
    module = traced()
    mine, theirs = dict(duplicate(module).named_buffers()), dict(module.named_buffers())
    assert mine.keys() == theirs.keys()
    assert theirs
    assert all(mine[name] is theirs[name] for name in theirs)
