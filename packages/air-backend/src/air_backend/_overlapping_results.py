"""Results whose elements lie over one another have gradients that do not.

    def step(x):
        return (x * 2).unfold(0, 3, 1)

From torch 2.12 on AOTAutograd lays the gradient of a result out as the result lies. Where several elements of it are in
one place their gradients are written there too, and the last one counts for each of them: wrong numbers, with every
backend. Of a result that was expanded torch 2.13 knows it, and torch 2.12 ends with an error ("more than one element of
the written-to tensor refers to a single memory location"). Gradients of such a graph come densely instead, as they do
in torch 2.11.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, fx

from air_graph import Region, repeated_element

AS_RESULTS_LIE: Final = "guess_tangent_strides_as_outputs"
"""torch's switch for gradients that lie as their results do."""


def layout_of_gradients(gm: fx.GraphModule) -> dict[str, bool]:
    """The settings of AOTAutograd that a graph needs for gradients of its results."""
    results = gm.graph.output_node().all_input_nodes
    return {AS_RESULTS_LIE: False} if any(map(_may_overlap, results)) else {}


def _may_overlap(node: fx.Node) -> bool:
    """Whether elements of a result may be in one place; open sizes may be known when AOTAutograd traces the graph."""
    value = node.meta.get("example_value", node.meta.get("val", node))
    if isinstance(value, fx.Node):  # nothing is known of it
        return True
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return False
    region = Region.of(value)
    return not region.is_empty() and repeated_element(region) is not None
