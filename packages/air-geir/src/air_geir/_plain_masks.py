"""Dropout that runs eagerly on an NPU, with the mask that torch describes.

torch_npu keeps one bit for each element in the mask of its dropout, where torch says that there is one bool.  A trace
has torch's word for it, and so has every compiled piece that reads the mask, in the same graph or in its backward half.
In a part that runs eagerly dropout and its gradient are therefore written with such a mask, also where they are called
by what saves and sets the state of the generator (`torch.utils.checkpoint`).
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, fx

from air_graph import duplicate

aten = torch.ops.aten
_LIBRARY: Final = torch.library.Library("air_geir", "FRAGMENT")
_LIBRARY.define("native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)")
_LIBRARY.define("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor")
_WRITTEN_AS: Final = {
    aten.native_dropout.default: torch.ops.air_geir.native_dropout.default,
    aten.native_dropout_backward.default: torch.ops.air_geir.native_dropout_backward.default,
}


@torch.library.impl(_LIBRARY, "native_dropout", "CompositeExplicitAutograd")
def _dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False or p == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    kept = torch.rand_like(input, dtype=torch.float32) < 1 - p
    return input * kept * (0.0 if p == 1 else 1 / (1 - p)), kept


@torch.library.impl(_LIBRARY, "native_dropout_backward", "CompositeExplicitAutograd")
def _backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    return grad_output * mask * scale


def with_plain_masks(part: fx.GraphModule) -> fx.GraphModule:
    """A part that runs eagerly, the graphs in it included, with such masks if it runs on an NPU."""
    if not any(_is_of_npu(node.meta.get("val")) for node in part.graph.nodes):
        return part
    found = duplicate(part)
    for module in found.modules():
        if isinstance(module, fx.GraphModule) and _rewrite(module.graph):
            module.recompile()
    return found


def _is_of_npu(value: Any) -> bool:
    values = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(each, Tensor) and each.device.type == "npu" for each in values)


def _written(one: Any) -> Any:
    return _WRITTEN_AS.get(one, one) if isinstance(one, torch._ops.OpOverload) else one


def _rewrite(graph: fx.Graph) -> bool:
    """Whether a call was written otherwise: of the operator, or of a function that is given it."""
    changed = False
    for node in graph.nodes:
        before = (node.target, *node.args)
        target, *args = after = tuple(map(_written, before))
        if any(one is not other for one, other in zip(before, after, strict=True)):
            node.target, node.args, changed = target, tuple(args), True
    return changed
