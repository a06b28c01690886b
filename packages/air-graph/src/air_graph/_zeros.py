"""Replaces zeros without memory, which autograd makes for gradients known to be zero, by zeros with memory.

    torch.sgn(x).backward()     ->     the backward graph is `return _efficientzerotensor(...)`

Such a tensor has sizes and strides, and no address: nothing can be captured that writes it, no engine can read it.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from air_graph._examples import computing_examples, mode_of

aten = torch.ops.aten


def mend_zeros(gm: GraphModule) -> bool:
    """Makes them of ordinary zeros; says whether there were any."""
    found = gm.graph.find_nodes(op="call_function", target=aten._efficientzerotensor.default)
    for node in found:
        node.target = aten.zeros.default
        value = node.meta.get("val")
        if value is not None:
            with computing_examples(mode_of(value)):
                node.meta["val"] = aten.zeros.default(*node.args, **node.kwargs)
    if found:
        gm.recompile()
    return bool(found)
