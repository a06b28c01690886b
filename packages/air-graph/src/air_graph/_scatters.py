"""The scatter operators: each is a copy of its base with one view of it replaced.

slice_scatter(base, source, 0, 2, 4)    # replaces    slice(base, 0, 2, 4)
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

aten = torch.ops.aten

#: scatter operator -> the view it replaces
SCATTERS: Final[dict[Any, OpOverload]] = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
    aten.diagonal_scatter.default: aten.diagonal.default,
    aten.as_strided_scatter.default: aten.as_strided.default,
}


def view_arguments(scatter: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the view that a scatter replaces, after its base."""
    kwargs = {name: value for name, value in scatter.kwargs.items() if name not in ("self", "src")}
    return tuple(scatter.args[2:]), kwargs
