"""Products of more than two sizes, as torch traces some of them, compute what their example values say."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule

from air_graph import mend_long_products


@pytest.mark.parametrize(("target", "expected"), [(operator.mul, 120), (operator.add, 14)])
def test_a_product_of_four_sizes_is_a_chain_of_products_of_two(
    target: Callable[..., Any], expected: int
) -> None:
    graph = Graph()
    sizes = [graph.placeholder(f"s{number}") for number in range(3)]
    for value, node in zip((2, 3, 4), sizes, strict=True):
        node.meta["val"] = value
    graph.output(graph.call_function(target, (*sizes, 5)))
    gm = GraphModule(torch.nn.Module(), graph)
    assert mend_long_products(gm)
    assert all(len(node.args) == 2 for node in graph.find_nodes(op="call_function", target=target))
    assert gm(2, 3, 4) == expected
    assert not mend_long_products(gm)
