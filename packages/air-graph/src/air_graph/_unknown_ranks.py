"""Values of which only the data say how many dimensions they have.

    rows = mask.nonzero()        # (u0, 1)
    ids = rows.squeeze()         # torch traces (u0,); where one row is found, eager gives a tensor without dimensions

Torch traces that a dimension whose size it does not know stays. Its size can be 1 in a call: then the value, and all
that is computed from it, has another shape than the example values say. Nothing that is compiled for those may read it.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from air_graph._uses import bodies_of
from air_graph.pieces import is_unbacked

aten = torch.ops.aten

_DROPS_ONES: Final = frozenset({aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims})
_DECIDES: Final = "whether it drops a dimension is only known when the graph runs"
_FOLLOWS: Final = "how many dimensions the values have that it reads is only known when the graph runs"
_INSIDE: Final = "how many dimensions a value inside it has is only known when the graph runs"


def unknown_ranks(gm: GraphModule) -> dict[Node, str]:
    """Why the result of a node may have other dimensions than its example value: what drops some, and what reads it."""
    found: dict[Node, str] = {}
    for node in gm.graph.nodes:
        if node.op == "call_function" and (reason := _reason(node, found)) is not None:
            found[node] = reason
    return found


def _reason(node: Node, found: dict[Node, str]) -> str | None:
    if node.target in _DROPS_ONES and _may_drop(*node.args):
        return _DECIDES
    if any(n in found for n in node.all_input_nodes):
        return _FOLLOWS
    return _INSIDE if any(map(unknown_ranks, bodies_of(node))) else None


def _may_drop(of: Any, *given: Any) -> bool:
    """Whether one of the dimensions has a size that can be 1 in some call and is not in all."""
    value = of.meta.get("val")
    if not isinstance(value, Tensor) or not value.dim():
        return False
    dims = given[0] if given else range(value.dim())
    sizes: list[Any] = [value.shape[dim] for dim in ((dims,) if isinstance(dims, int) else dims)]
    return any(is_unbacked(size) and not statically_known_true(size != 1) for size in sizes)
