"""How torch_npu lays out values, where that is not what torch's example values say.

Torch describes a result of `x.t() + 1` as lying like `x.t()`. The kernels of torch_npu allocate results dense, but for
the operators that copy their operand as it lies, and for those that torch_npu hands to the CPU. What leaves a graph on
an NPU lies as it does in eager there.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import torch
from torch import fx

from air_graph._examples import computing_examples, mode_of
from air_graph._links import link_of
from air_graph._offsets import as_its_base
from air_graph._out_forms import out_form_of

aten = torch.ops.aten

_LIKE_OPERAND: Final = frozenset(
    (
        aten.clone.default,
        aten._to_copy.default,
        aten.empty_like.default,
        aten.zeros_like.default,
        aten.ones_like.default,
        aten.full_like.default,
        aten.rand_like.default,
        aten.randn_like.default,
        aten.randint_like.default,
        aten.gelu.default,
        aten.fill.Scalar,
        aten.fill.Tensor,
        aten.slice_scatter.default,
        aten.select_scatter.default,
        aten.diagonal_scatter.default,
        aten.as_strided_scatter.default,
        aten.copy.default,
        aten.empty_strided.default,
        aten.new_empty_strided.default,
    )
)
"""Operators whose results lie in torch_npu as torch describes them."""


def lies_like_operand_on_npu(target: Any) -> bool:
    """Whether the results of an operator lie in torch_npu as torch describes them."""
    return target in _LIKE_OPERAND or (_torch_npu_is_there() and _runs_on_the_cpu(target))


def _torch_npu_is_there() -> bool:
    """Whether kernels of torch_npu are registered, so that it can be asked what else is."""
    return torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.out", "PrivateUse1")


@cache
def _runs_on_the_cpu(target: Any) -> bool:
    """Whether torch_npu has no kernel for an operator, nor anybody one that is written with other operators."""
    if not isinstance(target, torch._ops.OpOverload) or out_form_of(target, "npu") is not None:
        return False
    keys = ("PrivateUse1", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    return not any(torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key) for key in keys)


class DeviceLayouts:
    """Example values of nodes as torch_npu lays them out: each computed when it is asked for."""

    def __init__(self) -> None:
        self._known: dict[fx.Node, torch.Tensor | None] = {}

    def of(self, node: fx.Node) -> torch.Tensor | None:
        """The value; None where torch_npu's layout does not admit the views the graph takes."""
        if node not in self._known:
            traced = node.meta.get("val")
            with computing_examples(mode_of(traced)):
                try:
                    self._known[node] = self._value(node, traced)
                except (RuntimeError, TypeError, ValueError, IndexError):
                    self._known[node] = None
        return self._known[node]

    def _value(self, node: fx.Node, traced: Any) -> torch.Tensor | None:
        if not isinstance(traced, torch.Tensor) or node.op != "call_function":
            return traced if isinstance(traced, torch.Tensor) else None
        link = link_of(node)
        if link is not None and link.kind == "item":
            pieces = self._again(link.base)
            return None if pieces is None else pieces[node.args[1]]
        if link is not None and link.kind == "same":
            return self.of(link.base)
        if link is not None or lies_like_operand_on_npu(node.target):
            value = self._again(node)
            return value if isinstance(value, torch.Tensor) else None
        return torch.empty(traced.shape, dtype=traced.dtype, device=traced.device)

    def _again(self, node: fx.Node) -> Any:
        """What an operator gives for its first operand as torch_npu lays that out."""
        first, *others = (_plain(argument) for argument in node.args)
        if isinstance(node.args[0], fx.Node):
            first = self.of(node.args[0])
            if first is None:
                return None
        target: Any = node.target
        result = target(first, *others, **{name: _plain(value) for name, value in node.kwargs.items()})
        return as_its_base(target, result, first)


def _plain(argument: Any) -> Any:
    return fx.node.map_arg(argument, lambda node: node.meta["val"])
