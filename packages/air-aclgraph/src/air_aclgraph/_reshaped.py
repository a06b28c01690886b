"""Refuses graphs that give an input other sizes or strides in place: `x.t_()`, `x.squeeze_()`, `x.resize_()`.

A replay writes values into memory.  The Python object that the caller passed stays as it is, so such a change would be
seen after the first call and never again.  AOTAutograd takes these calls out of the graphs it makes.
"""

from __future__ import annotations

from torch.fx import GraphModule

from air_aclgraph.errors import InputRefused
from air_graph import source_of as where
from air_graph import turned_inputs


def refuse_reshaped_inputs(gm: GraphModule) -> None:
    """Raises for the first operator that changes the sizes or strides of a placeholder."""
    for given, node in turned_inputs(gm).items():
        raise InputRefused(
            f"{node.target} changes the sizes or strides of input {given.target!r} itself, which no replay repeats",
            where=where(node),
            advice="use a view of it instead (x.t(), x.squeeze()), or do it outside the compiled function",
            input=str(given.target),
        )
