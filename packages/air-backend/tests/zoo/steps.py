"""What is done with a model in one call: inference, or a step of training with all that it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

Step = Callable[[Any, dict[str, Any]], Any]


class Trained(NamedTuple):
    """What a step of training gives and leaves."""

    results: Any
    gradients: dict[str, Tensor | None]
    buffers: dict[str, Tensor]


def inference(model: Any, inputs: dict[str, Any]) -> Any:
    with torch.no_grad():
        return model(**inputs)


def training(model: Any, inputs: dict[str, Any]) -> Trained:
    """Forward and backward; every floating result has a gradient of its own, drawn once and for all."""
    module: nn.Module = getattr(model, "_orig_mod", model)
    module.zero_grad()
    results = model(**inputs)
    _loss(results).backward()
    gradients = {name: each.grad for name, each in module.named_parameters()}
    return Trained(results, gradients, dict(module.named_buffers()))


def _loss(results: Any) -> Tensor:
    """Not the sum: that of a softmax, or of what a layer norm gives, depends on nothing."""
    parts: list[Tensor] = []
    for leaf in tree_leaves(results):
        if isinstance(leaf, Tensor) and leaf.requires_grad and leaf.is_floating_point():
            weights = torch.randn(leaf.shape, generator=torch.Generator().manual_seed(len(parts)))
            parts.append((leaf.float() * weights.to(leaf.device)).sum())
    if not parts:
        raise ValueError("no result depends on a parameter")
    return torch.stack(parts).sum()


_DROPOUT: Final = nn.modules.dropout._DropoutNd


def to_be_trained(model: nn.Module) -> nn.Module:
    """The model as it is trained, without dropout: what is drawn in a call cannot be compared."""
    for module in model.train().modules():
        if isinstance(module, _DROPOUT):
            module.p = 0.0
        for holder in (module, getattr(module, "config", None)):
            rates = [
                name
                for name, value in getattr(holder, "__dict__", {}).items()
                if "drop" in name and isinstance(value, float)
            ]
            for name in rates:
                setattr(holder, name, 0.0)
    return model
