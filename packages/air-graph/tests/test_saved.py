"""Results of a forward half that no caller sees: noted for the whole graph, and known of its parts."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import note_saved_results, saved_results
from air_graph.pieces import cut


def step(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x.sin()
    z = y.exp()
    return z.t(), y, z.cos()


def test_nothing_is_known_of_a_graph_that_is_no_forward_half() -> None:
    assert saved_results(make_fx(step)(torch.ones(2, 3))) is None


def test_a_part_knows_which_of_its_results_callers_see_through_a_view() -> None:
    gm = make_fx(step, tracing_mode="fake")(torch.ones(2, 3))
    note_saved_results(gm, (1, 2))
    middle = next(node for node in gm.graph.nodes if node.target is torch.ops.aten.exp.default)
    parts = cut(gm, [middle])
    found = {part.name: saved_results(parts.gm.get_submodule(part.name)) for part in parts.parts}  # type: ignore[arg-type]
    assert found["piece_0"] == frozenset({0})  # y, which the backward half reads
    assert found["eager_1"] == frozenset()  # z, of which a caller has a view
