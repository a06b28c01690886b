"""Nodes without use go; writes, effects and random draws stay."""

from __future__ import annotations

import torch

from air_fxpasses import EliminateDeadCode, Pipeline
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
