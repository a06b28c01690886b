"""Results that own their memory are those of the graph as it was traced."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import note_owning_results, owning_results, restore_detached


def results(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x * 2
    return y.t(), y, x[1:]


def places(gm: GraphModule) -> list[tuple[int, bool]]:
    return [(result.base, result.owns) for result in owning_results(gm)]


def test_views_of_values_and_of_inputs_own_nothing() -> None:
    (transposed, doubled, part) = places(make_fx(results)(torch.ones(2, 2)))
    assert (transposed, doubled) == ((1, False), (1, True))
    assert part[0] < 0
    assert not part[1]


def test_what_is_detached_is_no_view_though_others_of_its_memory_are() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        z = y.detach()
        return z, y[1:], y.t(), z[1:]

    detached, part, transposed, of_detached = places(make_fx(function)(torch.ones(2, 2)))
    assert detached == (0, False)
    assert part == transposed
    assert part[0] < 0
    assert of_detached == (0, False)


def test_what_was_noted_holds_after_passes_moved_a_value() -> None:
    gm = make_fx(results)(torch.ones(2, 2))
    note_owning_results(gm)
    (mul,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    with gm.graph.inserting_after(mul):
        view = gm.graph.call_function(torch.ops.aten.view.default, (mul, [2, 2]))
    view.meta["val"] = mul.meta["val"]
    mul.replace_all_uses_with(view, delete_user_cb=lambda user: user is not view)
    assert places(gm)[:2] == [(1, False), (1, True)]


def test_what_passes_took_for_a_view_is_detached_again() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y.detach().t(), y.t(), (x + 1).detach()

    gm = make_fx(function)(torch.ones(2, 2))
    note_owning_results(gm)
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        node.replace_all_uses_with(node.args[0])
        gm.graph.erase_node(node)
    restore_detached(gm)
    returned: Any = gm.graph.output_node().args[0]
    own, detached, view, alone = returned
    assert [node.target for node in (own, detached, view, alone)] == [
        torch.ops.aten.mul.Tensor,
        torch.ops.aten.detach.default,
        torch.ops.aten.t.default,
        torch.ops.aten.add.Tensor,
    ]
    x = torch.ones(2, 2)
    assert all(map(torch.equal, gm(x), function(x)))
