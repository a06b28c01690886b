"""Copies values of an NPU before views that torch's example values allow and torch_npu's memory does not.

    (x.t() + 1).t().reshape(-1)

Torch lays the sum out like `x.t()`: turned back it is dense. torch_npu lays it out dense: turned back it is not.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from air_graph._copied_views import RESHAPES, copy_before, has_view
from air_graph._device_layouts import DeviceLayouts
from air_graph._recompute import recompute_views


def mend_views_on_npu(gm: GraphModule) -> int:
    """Puts the copies in; says how many."""
    layouts = DeviceLayouts()
    nodes = [node for node in gm.graph.nodes if node.target in RESHAPES]
    copies = [copy_before(node) for node in nodes if not _fits(node, node.args[0], layouts)]
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
    return laid is None or laid is traced or has_view(node, laid)
