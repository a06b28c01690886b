"""Copies before views that torch traced and the memory of a value does not have.

    (x.t() + 1).t().reshape(-1)      traced as a view, where torch's example values lie so that there is one

In eager `reshape` copies what has no such view. A graph has to copy as well, where the kernel lays its result out
otherwise than torch's example value says.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from air_graph._examples import computing_examples, example_arguments, mode_of

aten = torch.ops.aten

#: A reshape, as torch traces it where it need not copy.
RESHAPES: Final = frozenset({aten.view.default, aten._unsafe_view.default})


def has_view(node: Node, laid: Tensor) -> bool:
    """Whether a value that lies like this one has the view that the node makes of its first operand."""
    size = example_arguments(node)[0][1]
    with computing_examples(mode_of(laid)):
        try:
            laid.view(size)
        except (RuntimeError, ValueError):
            return False
    return True


def copy_before(node: Node) -> Node:
    """Lets a view be made of a dense copy of its first operand; gives the copy."""
    base: Any = node.args[0]
    dense: dict[str, Any] = {"memory_format": torch.contiguous_format}
    with node.graph.inserting_before(node):
        copy = node.graph.call_function(aten.clone.default, (base,), dense)
    copy.meta = {**node.meta, "val": base.meta["val"].clone(**dense)}
    node.replace_input_with(base, copy)
    return copy
