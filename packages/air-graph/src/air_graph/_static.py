"""Which inputs of a graph keep their address from call to call: parameters, buffers, marked tensors.

AOTAutograd knows it while it compiles, for the graph that it hands to a backend, and gives the numbers of the inputs of
the forward half. Code that cuts a graph into pieces asks before it cuts, and passes the answer on by name.
"""

from __future__ import annotations

from typing import Final

from torch._guards import TracingContext
from torch.fx import GraphModule

_PRIMAL: Final = "primals_"
_TANGENT: Final = "tangents_"


def is_backward_half(gm: GraphModule) -> bool:
    """Whether gradients are among the inputs, as AOTAutograd names them."""
    return any(str(node.target).startswith(_TANGENT) for node in gm.graph.find_nodes(op="placeholder"))


def static_inputs(gm: GraphModule) -> tuple[int, ...]:
    """The static inputs of the graph that AOTAutograd compiles now, by number; none outside a compilation.

    A backward half has those among its inputs that were saved, under the names they had in the forward half. What
    else was saved was computed, and is somewhere else in every step.
    """
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    static = () if metadata is None else tuple(metadata.static_input_indices or ())
    if not is_backward_half(gm):
        return static
    names = [str(node.target) for node in gm.graph.find_nodes(op="placeholder")]
    saved = {f"{_PRIMAL}{index + 1}" for index in static}
    return tuple(place for place, name in enumerate(names) if name in saved)
