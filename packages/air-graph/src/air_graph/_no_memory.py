"""Which calls have a value that is no piece of memory of one size: no compiler takes them.

x.to("meta")      no memory at all; forward-mode AD makes such tensors as marks
x.to_sparse()     several tensors, of sizes that the data decide
"""

from __future__ import annotations

import torch
from torch.fx import Node

from air_graph._examples import example_tensors


def no_memory(node: Node) -> str | None:
    """Why a value that a call takes or gives is no piece of memory; None where each one is."""
    if not node.op.startswith("call_"):
        return None
    for value in (value for each in (node, *node.all_input_nodes) for value in example_tensors(each)):
        if value.is_meta:
            return "a tensor on 'meta' has no memory"
        if value.layout is not torch.strided:
            return f"a tensor of layout {value.layout} is no memory of one size"
    return None
