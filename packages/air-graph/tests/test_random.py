"""Which calls draw random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import Library

from air_graph import draws_random_numbers

aten = torch.ops.aten


def call(target: Any, *args: Any, **kwargs: Any) -> Node:
    graph = Graph()
    x = graph.placeholder("x")
    return graph.call_function(target, tuple(x if arg == "x" else arg for arg in args), kwargs)


@pytest.mark.parametrize(
    ("node", "draws"),
    [
        (call(aten.sin.default, "x"), False),
        (call(aten.rand_like.default, "x"), True),
        (call(aten.bernoulli.p, "x", 0.5), True),
        (call(aten._scaled_dot_product_efficient_attention.default, "x", "x", "x", None, False), False),
        (call(aten._scaled_dot_product_efficient_attention.default, "x", "x", "x", None, False, 0.5), True),
        (call(aten._scaled_dot_product_flash_attention.default, "x", "x", "x", dropout_p=0.5), True),
        (call(aten._scaled_dot_product_flash_attention.default, "x", "x", "x", dropout_p=0.0), False),
    ],
    ids=str,
)
def test_what_a_call_drops_decides_where_it_says_so(node: Node, draws: bool) -> None:
    assert draws_random_numbers(node) is draws


def test_a_number_that_only_a_run_tells_may_drop() -> None:
    node = call(aten._scaled_dot_product_flash_attention.default, "x", "x", "x", "x")
    assert draws_random_numbers(node)


def test_an_operator_that_another_one_runs_is_asked() -> None:
    effects = torch.ops.higher_order.with_effects
    assert draws_random_numbers(call(effects, "x", aten.rand_like.default, "x"))
    assert not draws_random_numbers(call(effects, "x", aten.sin.default, "x"))


def test_an_operator_that_is_given_graphs_draws_where_one_of_them_does() -> None:
    def branches(*draws: bool) -> Node:
        made = [make_fx(torch.rand_like if draw else torch.sin)(torch.ones(2)) for draw in draws]
        graph = Graph()
        x = graph.placeholder("x")
        given = [graph.get_attr(name) for name in ("first", "second")]
        graph.call_function(torch.ops.higher_order.cond, (x, *given, (x,)))
        owner = GraphModule(dict(zip(("first", "second"), made, strict=True)), graph)
        node: Node
        (node,) = owner.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
        return node

    assert draws_random_numbers(branches(False, True))
    assert not draws_random_numbers(branches(False, False))


def test_what_is_no_operator_draws_nothing_that_is_known() -> None:
    assert not draws_random_numbers(call(len, "x"))


def test_an_operator_of_torch_npu_draws_where_it_keeps_less_than_all() -> None:
    with torch.library._scoped_library("npu", "FRAGMENT") as library:
        name = "npu_fusion_attention_v3"
        if not hasattr(torch.ops.npu, name):  # torch_npu is not there
            _define(library, name)
        found = getattr(torch.ops.npu, name).default
        assert draws_random_numbers(call(found, "x", "x", "x", 1, "BSH", keep_prob=0.9))
        assert not draws_random_numbers(call(found, "x", "x", "x", 1, "BSH"))


def _define(library: Library, name: str) -> None:
    given = "Tensor query, Tensor key, Tensor value, int head_num, str input_layout, *, float keep_prob=1."
    library.define(f"{name}({given}) -> Tensor")
