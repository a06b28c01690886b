"""Views lie in the memory of what they are views of, also after that was replaced."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import recompute_views, shares_storage


def with_a_copy(gm: GraphModule, name: str) -> Node:
    """A clone after a value, which everybody reads instead."""
    (value,) = (node for node in gm.graph.nodes if node.name == name)
    users = list(value.users)
    with gm.graph.inserting_after(value):
        copy = gm.graph.call_function(torch.ops.aten.clone.default, (value,))
    copy.meta["val"] = value.meta["val"].clone()
    for user in users:
        user.replace_input_with(value, copy)
    return copy


def views(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x + 1
    first, second = y.split(2)
    return first.t()[0], second + 1, y


@pytest.mark.parametrize("tracing", ["fake", "symbolic"])
def test_views_of_views_and_parts_of_a_split_follow(tracing: str) -> None:
    gm = make_fx(views, tracing_mode=tracing)(torch.ones(4, 3))  # type: ignore[arg-type]  # the name of a mode
    copy = with_a_copy(gm, "add")
    results: Any = gm.graph.output_node().args[0]
    first, second, _ = results
    sizes = [tuple(map(str, node.meta["val"].shape)) for node in (first, second)]
    assert not shares_storage(first, copy)
    assert recompute_views(gm.graph, [copy]) == 5  # split, its parts, t, select
    assert shares_storage(first, copy)
    assert not shares_storage(second, copy)
    assert [tuple(map(str, node.meta["val"].shape)) for node in (first, second)] == sizes


def test_where_nothing_changed_nothing_is_evaluated() -> None:
    gm = make_fx(views, tracing_mode="fake")(torch.ones(4, 3))
    assert recompute_views(gm.graph, []) == 0
