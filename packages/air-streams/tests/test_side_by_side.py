"""Products that read one matrix run at the same time, without a race, and give what they gave one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_streams import STREAM_OPS, StreamPlan, products_side_by_side
from air_streams._library import STREAM_ENTER, STREAM_EXIT

aten = torch.ops.aten
ROWS, SIZE = 4, 8


def matrices(count: int, rows: int = ROWS) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(rows, SIZE), *(torch.randn(SIZE, SIZE) for _ in range(count))]


def traced(function: Callable[..., Any], inputs: list[Tensor]) -> GraphModule:
    return make_fx(function, tracing_mode="fake")(*(each.clone() for each in inputs))


def attention(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor) -> Tensor:
    y = x.relu()
    q = torch.mm(y, wq.t()).sin()
    k = torch.mm(y, wk.t()).cos()
    v = torch.mm(y, wv.t())
    return torch.mm(q @ k.t(), v)


def streams_of(gm: GraphModule) -> dict[str, str]:
    """The stream that each product is on."""
    plan = StreamPlan.of(gm, sync="error")
    return {node.name: str(plan.stream_of(node)) for node in gm.graph.nodes if node.target is aten.mm.default}


def test_query_key_and_value_run_on_streams_of_their_own() -> None:
    inputs = matrices(3)
    gm = traced(attention, inputs)
    expected = gm(*inputs)
    assert products_side_by_side(gm) == 2
    found = streams_of(gm)
    assert len({found[name] for name in ("mm", "mm_1", "mm_2")}) == 3
    assert found["mm"] == found["mm_3"] == found["mm_4"]
    assert torch.equal(gm(*inputs), expected)
    assert StreamPlan.of(gm, sync="off").check() == ()
    assert products_side_by_side(gm) == 0


def layers(x: Tensor, *weights: Tensor) -> Tensor:
    for wq, wk, wv in zip(weights[::3], weights[1::3], weights[2::3], strict=True):
        x = x + attention(x, wq, wk, wv)
    return x


def test_every_layer_uses_the_same_streams() -> None:
    inputs = matrices(9)
    gm = traced(layers, inputs)
    expected = gm(*inputs)
    assert products_side_by_side(gm) == 6
    plan = StreamPlan.of(gm, sync="error")
    assert len(plan.resources.streams) == 3
    assert torch.equal(gm(*inputs), expected)


def test_the_numbers_of_a_bias_are_added_on_the_stream_of_their_product() -> None:
    def biased(x: Tensor, wq: Tensor, wk: Tensor) -> Tensor:
        return torch.addmm(wq[0], x, wq.t()) * torch.addmm(wk[0], x, wk.t())

    inputs = matrices(2)
    gm = traced(biased, inputs)
    expected = gm(*inputs)
    assert products_side_by_side(gm) == 1
    assert torch.equal(gm(*inputs), expected)


def test_a_view_that_two_products_are_given_is_moved_once() -> None:
    def one_bias(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor) -> Tensor:
        q = torch.mm(x, wq)
        bias = wq[0]
        return q + torch.addmm(bias, x, wk) + torch.addmm(bias, x, wv)

    inputs = matrices(3)
    gm = traced(one_bias, inputs)
    expected = gm(*inputs)
    assert products_side_by_side(gm) == 2
    assert torch.equal(gm(*inputs), expected)


def weight_written(x: Tensor, wq: Tensor, wk: Tensor) -> Tensor:
    q = torch.mm(x, wq)
    row = wk[0]
    row.add_(1)
    return q + torch.mm(x, wk)


def factor_written(x: Tensor, wq: Tensor, wk: Tensor) -> Tensor:
    y, flat = x.relu(), x.relu().view(-1)
    q = torch.mm(y, wq)
    aten.add_(y, 1)
    return q + torch.mm(y, wk) + flat.sum()


def weight_computed(x: Tensor, wq: Tensor, wk: Tensor) -> Tensor:
    q = torch.mm(x, wq)
    return q + torch.mm(x, wk.exp())


def one_of_the_other(x: Tensor, wq: Tensor) -> Tensor:
    return torch.mm(x, torch.mm(x, wq).t().mm(x))


@pytest.mark.parametrize("function", [weight_written, weight_computed, factor_written])
def test_a_product_stays_whose_operands_are_not_there_yet(function: Callable[..., Any]) -> None:
    inputs = matrices(2)
    gm = traced(function, inputs)
    assert products_side_by_side(gm) == 0
    assert not [node for node in gm.graph.nodes if node.target in STREAM_OPS]


def test_a_product_of_another_product_stays() -> None:
    gm = traced(one_of_the_other, matrices(1))
    assert products_side_by_side(gm) == 0


def test_products_of_many_rows_stay() -> None:
    gm = traced(attention, matrices(3, rows=65))
    assert products_side_by_side(gm) == 0


def test_a_graph_with_streams_of_its_own_stays_as_it_is() -> None:
    inputs = matrices(3)
    gm = traced(attention, inputs)
    first = next(node for node in gm.graph.nodes if node.op == "call_function")
    with gm.graph.inserting_before(first):
        gm.graph.call_function(STREAM_ENTER, ("1",))
        gm.graph.call_function(STREAM_EXIT, ("1",))
    assert products_side_by_side(gm) == 0


def random_program(source: random.Random) -> Callable[..., Any]:
    """Products of values at hand, sums of them, and writes into some."""
    steps = [
        (source.choice("mmmmasw"), source.random(), source.random()) for _ in range(source.randint(4, 14))
    ]

    def program(*given: Tensor) -> Tensor:
        values, weights = [given[0].relu()], list(given[1:])
        for kind, one, other in steps:
            a, b = values[int(one * len(values))], values[int(other * len(values))]
            weight = weights[int(other * len(weights))]
            if kind == "m":
                values.append(torch.mm(a, weight if one < 0.5 else weight.t()))
            elif kind == "a":
                values.append(torch.addmm(weight[0], a, weight))
            elif kind == "s":
                values.append((a + b).sin())
            elif one < 0.5:
                a.mul_(0.5)
            else:
                weight[1].mul_(0.5)
        return torch.stack(values).sum(0)

    return program


@pytest.mark.parametrize("programs", [60, pytest.param(1_000, marks=pytest.mark.slow)])
def test_random_programs_have_no_race_and_give_what_they_gave(programs: int) -> None:
    moved = 0
    for seed in range(programs):
        program, inputs = random_program(random.Random(seed)), matrices(3)
        expected_inputs = [each.clone() for each in inputs]
        expected = program(*expected_inputs)
        gm = traced(program, inputs)
        moved += products_side_by_side(gm)
        assert StreamPlan.of(gm, sync="off").races() == (), gm.code
        got_inputs = [each.clone() for each in inputs]
        assert torch.equal(gm(*got_inputs), expected), gm.code
        assert all(map(torch.equal, got_inputs, expected_inputs))
    assert moved > programs / 2
