"""Nodes without use go; writes, effects and random draws stay."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_fxpasses import EliminateDeadCode, Facts, Pipeline
from air_fxpasses.testing import functional_graph

aten = torch.ops.aten


def test_a_chain_nobody_uses_disappears() -> None:
    gm = functional_graph(lambda x: x.neg(), torch.ones(3))
    with gm.graph.inserting_before(next(iter(reversed(gm.graph.nodes)))):
        dead = gm.graph.call_function(aten.relu.default, (next(iter(gm.graph.nodes)),))
        gm.graph.call_function(aten.abs.default, (dead,))
    report = Pipeline([EliminateDeadCode()]).run(gm, [torch.ones(3)])
    assert report.steps[0].notes == ("2 dead nodes removed",)
    assert [n.target for n in gm.graph.nodes if n.op == "call_function"] == [aten.neg.default]


def run_with_a_call(target: Any, *bodies: Callable[..., Any]) -> list[str]:
    """What is left of a graph with a call that nobody uses, of operands and bodies."""
    graph = Graph()
    x = graph.placeholder("x")
    given = [graph.get_attr(f"body_{at}") for at in range(len(bodies))]
    graph.call_function(
        target, (graph.call_function(aten.any.default, (x,)), *given, (x,)) if given else (x,)
    )
    graph.output(graph.call_function(aten.neg.default, (x,)))
    made = {f"body_{at}": make_fx(body)(torch.ones(3)) for at, body in enumerate(bodies)}
    gm = GraphModule(made, graph)
    for node in gm.graph.nodes:
        if node.op != "output":
            node.meta["val"] = torch.ones(3)
    EliminateDeadCode()(gm, Facts(gm))
    return [str(n.target) for n in gm.graph.nodes if n.op == "call_function"]


def asserted(x: torch.Tensor) -> torch.Tensor:
    torch._assert_async((x > 0).all())
    return x.neg()


@pytest.mark.parametrize("body", [torch.rand_like, lambda x: x.add_(1), asserted])
def test_branches_that_draw_write_or_assert_stay(body: Callable[..., Any]) -> None:
    assert "cond" in run_with_a_call(torch.ops.higher_order.cond, torch.sin, body)


def test_branches_that_only_compute_go() -> None:
    assert run_with_a_call(torch.ops.higher_order.cond, torch.sin, torch.cos) == ["aten.neg.default"]


def observe(x: torch.Tensor) -> None:
    """Does what no schema tells."""


def test_a_function_that_may_do_anything_stays_and_arithmetic_goes() -> None:
    assert len(run_with_a_call(observe)) == 2
    assert run_with_a_call(operator.neg) == ["aten.neg.default"]


def test_writes_random_draws_and_assertions_stay() -> None:
    gm = functional_graph(lambda x: x.neg(), torch.ones(3))
    x = next(iter(gm.graph.nodes))
    with gm.graph.inserting_before(next(iter(reversed(gm.graph.nodes)))):
        gm.graph.call_function(aten.copy_.default, (x, x))
        gm.graph.call_function(aten.rand.default, ([3],))
        gm.graph.call_function(aten._assert_tensor_metadata.default, (x,))
    before = str(gm.graph)
    assert not Pipeline([EliminateDeadCode()]).run(gm, [torch.ones(3)]).modified
    assert str(gm.graph) == before
