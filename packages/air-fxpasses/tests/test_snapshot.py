"""A graph comes back as it was, whatever was done to it."""

from __future__ import annotations

import torch

from air_fxpasses._snapshot import Snapshot
from air_fxpasses.testing import functional_graph, run_graph


def test_edits_insertions_and_removals_are_undone_and_surviving_nodes_are_the_same_objects() -> None:
    x = torch.arange(6.0)
    gm = functional_graph(lambda x: (x + 1).neg() * 2, x)
    text, nodes = str(gm.graph), list(gm.graph.nodes)
    snapshot = Snapshot(gm)
    neg = nodes[2]
    with gm.graph.inserting_before(neg):
        extra = gm.graph.call_function(torch.ops.aten.abs.default, (nodes[1],))
    nodes[3].args = (extra, 3)
    nodes[1].meta["val"] = None
    gm.graph.erase_node(neg)
    gm.register_buffer("left_over", torch.ones(1))
    assert not snapshot.is_unchanged()
    made_anew = snapshot.restore()
    assert str(gm.graph) == text
    assert list(made_anew) == [neg]
    assert [n for n in gm.graph.nodes if n in nodes] == [n for n in nodes if n is not neg]
    assert not hasattr(gm, "left_over")
    assert nodes[1].meta["val"] is not None
    gm.graph.lint()
    assert torch.equal(run_graph(gm, [x]).outputs[0], (x + 1).neg() * 2)


def test_an_unchanged_graph_is_recognised() -> None:
    gm = functional_graph(lambda x: x + 1, torch.ones(2))
    assert Snapshot(gm).is_unchanged()
