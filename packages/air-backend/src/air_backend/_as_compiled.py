"""Whether a call is one that a graph of ATen operators serves as it is compiled, where nobody has guards for it.

Such a graph computes values, of tensors that lie as those of its trace. In another call its operators would do other
things: a gradient is asked for, autocast changes their types, `view` is not possible, a device is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from air_backend._kinds import Kinds
from air_backend._layouts import Layout


class Attribute(NamedTuple):
    """A tensor that a graph takes from its module."""

    owner: nn.Module
    name: str
    value: Tensor
    dtype: torch.dtype
    sizes: torch.Size
    layout: Layout

    def is_still(self) -> bool:
        """Whether it is in its place, and nothing but its numbers has changed."""
        value = getattr(self.owner, self.name, None)
        return (
            value is self.value
            and value.dtype is self.dtype
            and value.shape == self.sizes
            and self.layout.holds_for(value)
        )


def attributes_of(gm: fx.GraphModule) -> list[Attribute]:
    """The tensors that a graph takes from its module, and from the graphs in it."""
    return [
        _attribute(module, node.target)
        for module in gm.modules()
        if isinstance(module, fx.GraphModule)
        for node in module.graph.find_nodes(op="get_attr")
        if isinstance(_found(module, node.target), Tensor)
    ]


def _found(module: nn.Module, path: str) -> Any:
    owner, _, name = path.rpartition(".")
    return getattr(module.get_submodule(owner), name)


def _attribute(module: nn.Module, path: str) -> Attribute:
    owner, _, name = path.rpartition(".")
    value = _found(module, path)
    layout = Layout(value.device, value.stride())
    return Attribute(module.get_submodule(owner), name, value, value.dtype, value.shape, layout)


class AsCompiled:
    """What has to be so in a call: the state of torch, where arguments lie, and the tensors of the module."""

    def __init__(self, gm: fx.GraphModule, kinds: Kinds) -> None:
        self._kinds, self._layouts, self._attributes = kinds, kinds.layouts, attributes_of(gm)

    def serves(self, args: Sequence[Any]) -> bool:
        """Whether the compiled graph gives what the graph itself gives; the arguments are of its kinds."""
        held = [one.value for one in self._attributes]
        return (
            asks_for_values_alone([*args, *held])
            and all(one.is_still() for one in self._attributes)
            and all(layout.holds_for(args[place]) for place, layout in self._layouts)
            and all(layout.holds_for(args[place]) for place, layout in self._kinds.open_layouts(args))
        )


def asks_for_values_alone(values: Sequence[Any]) -> bool:
    """Whether the state of a call is that in which a graph computes its values and nothing else."""
    if torch._C._is_any_autocast_enabled():
        return False
    return not torch.is_grad_enabled() or not any(
        value.requires_grad for value in values if isinstance(value, Tensor)
    )
