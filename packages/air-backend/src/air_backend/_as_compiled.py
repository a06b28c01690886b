"""Whether a call is one that a graph of ATen operators serves as it is compiled, where nobody has guards for it.

Such a graph computes values, of tensors that lie as those of its trace. In another call its operators would do other
things: a gradient is asked for, autocast changes their types, `view` is not possible, a device is another one.
"""

from __future__ import annotations

import operator
from collections.abc import MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._C._dynamo.guards import TensorGuards

from air_backend._kinds import Kinds


class Held:
    """The tensors that a graph, and the graphs in it, take from their modules."""

    def __init__(self, gm: fx.GraphModule) -> None:
        found = {
            (owner, name): value
            for module in gm.modules()
            if isinstance(module, fx.GraphModule)
            for owner, name, value in _attributes(module)
        }
        self.values = list(found.values())
        self._places = [(_namespace(owner, name), name) for owner, name in found]
        self._is_plain = all(value.layout is torch.strided for value in self.values)
        if self._is_plain and self.values:
            with torch.no_grad():
                self._outside = _guards(self.values)
            with torch.inference_mode():  # torch dispatches otherwise there
                self._inside = _guards(self.values)

    def are_still(self) -> bool:
        """Whether each is in its place, and nothing but its numbers has changed."""
        if not self.values:
            return True
        now = [namespace.get(name) for namespace, name in self._places]
        if not self._is_plain or not all(map(operator.is_, now, self.values)):
            return False
        guards = self._inside if torch.is_inference_mode_enabled() else self._outside
        still: bool = guards.check(*self.values)
        return still


def _attributes(gm: fx.GraphModule) -> list[tuple[nn.Module, str, Tensor]]:
    found = []
    for node in gm.graph.find_nodes(op="get_attr"):
        owner, _, name = str(node.target).rpartition(".")
        module = gm.get_submodule(owner)
        value = getattr(module, name)
        if isinstance(value, Tensor):
            found.append((module, name, value))
    return found


def _namespace(owner: nn.Module, name: str) -> MutableMapping[str, Any]:
    """Where a module has an attribute: asked there it is found in a tenth of the time."""
    spaces: tuple[MutableMapping[str, Any], ...] = (owner._parameters, owner._buffers)
    return next((space for space in spaces if name in space), vars(owner))


def _guards(values: Sequence[Tensor]) -> Any:
    sizes: Any = [list(one.size()) for one in values]  # torch declares the type of one tensor's
    strides: Any = [list(one.stride()) for one in values]
    return TensorGuards(*values, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)


class AsCompiled:
    """What has to be so in a call: the state of torch, where arguments lie, and the tensors of the module."""

    def __init__(self, gm: fx.GraphModule, kinds: Kinds) -> None:
        self._kinds, self._layouts, self._held = kinds, kinds.layouts, Held(gm)

    def serves(self, args: Sequence[Any]) -> bool:
        """Whether the compiled graph gives what the graph itself gives; the arguments are of its kinds."""
        return (
            asks_for_values_alone(args)
            and asks_for_values_alone(self._held.values)
            and self._held.are_still()
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
