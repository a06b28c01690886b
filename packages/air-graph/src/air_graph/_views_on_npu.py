"""Copies values of an NPU before views that torch's example values allow and torch_npu's memory does not.

    (x.t() + 1).t().reshape(-1)

Torch lays the sum out like `x.t()`: turned back it is dense, and `reshape` is traced as a view. torch_npu lays the sum
out dense: turned back it is not, and in eager `reshape` copies it. A graph has to copy as well.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from air_graph._device_layouts import DeviceLayouts
from air_graph._examples import computing_examples, example_arguments, mode_of
from air_graph._recompute import recompute_views

aten = torch.ops.aten

_VIEWS: Final = (aten.view.default, aten._unsafe_view.default)


def mend_views_on_npu(gm: GraphModule) -> int:
    """Puts the copies in; says how many."""
    copies: list[Node] = []
    layouts = DeviceLayouts()
    for node in [node for node in gm.graph.nodes if node.target in _VIEWS]:
        base = node.args[0]
        if _fits(node, base, layouts):
            continue
        with gm.graph.inserting_before(node):
            copy = gm.graph.call_function(
                aten.clone.default, (base,), {"memory_format": torch.contiguous_format}
            )
        copy.meta = {**node.meta, "val": base.meta["val"].clone(memory_format=torch.contiguous_format)}
        node.replace_input_with(base, copy)
        copies.append(copy)
    if copies:
        recompute_views(gm.graph, copies)
        gm.recompile()
    return len(copies)


def _fits(node: Node, base: Any, layouts: DeviceLayouts) -> bool:
    """Whether the memory of a value, as torch_npu lays it out, has the view."""
    traced = base.meta.get("val") if isinstance(base, Node) else None
    if not isinstance(traced, Tensor) or traced.device.type != "npu":
        return True
    laid = layouts.of(base)
    if laid is None or laid is traced:
        return True
    size = example_arguments(node)[0][1]
    with computing_examples(mode_of(traced)):
        try:
            laid.view(size)
        except (RuntimeError, ValueError):
            return False
    return True
