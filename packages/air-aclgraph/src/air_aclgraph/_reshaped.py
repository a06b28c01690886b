"""Refuses graphs that give an input other sizes or strides in place: `x.t_()`, `x.squeeze_()`, `x.resize_()`.

A replay writes values into memory.  The Python object that the caller passed stays as it is, so such a change would be
seen after the first call and never again.  AOTAutograd takes these calls out of the graphs it makes.
"""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_aclgraph.errors import InputRefused
from air_graph import link_of
from air_graph import source_of as where


def refuse_reshaped_inputs(gm: GraphModule) -> None:
    """Raises for the first operator that changes the sizes or strides of a placeholder."""
    for node in gm.graph.nodes:
        target = node.target
        if not isinstance(target, OpOverload) or torch.Tag.inplace_view not in target.tags:
            continue
        value = node.args[0]
        while isinstance(value, Node) and (link := link_of(value)) is not None and link.kind == "same":
            value = link.base  # operators in place give back what they were given
        if isinstance(value, Node) and value.op == "placeholder":
            raise InputRefused(
                f"{target} changes the sizes or strides of input {value.target!r} itself, which no replay repeats",
                where=where(node),
                advice="use a view of it instead (x.t(), x.squeeze()), or do it outside the compiled function",
                input=str(value.target),
            )
