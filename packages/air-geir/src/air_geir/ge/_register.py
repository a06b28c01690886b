"""Registration in TorchAir's style: no context, GE tensors in, GE tensors out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from air_geir.converters import add
from air_geir.converters._registry import USERS
from air_geir.types import DataType


@dataclass(frozen=True)
class TensorSpec:
    """What torch says of a result: type (in the engine's numbering), rank and sizes."""

    meta: torch.Tensor

    @property
    def dtype(self) -> int:
        """The engine's number of the type."""
        return DataType.of(self.meta.dtype).api

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.meta.dim()

    @property
    def size(self) -> list[int]:
        """The sizes; an AssertionError when one is known only at run time."""
        if not all(isinstance(s, int) for s in self.meta.shape):
            raise AssertionError(f"the result has a size known only at run time: {tuple(self.meta.shape)}")
        return list(self.meta.shape)


def register_fx_node_ge_converter(op: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function of GE tensors and Python values, named like the schema's arguments, for an operator.

    A parameter `meta_outputs` receives a `TensorSpec` per result. It takes the place of AIR's own converter, and a
    warning says so; a second one of yours for the same operator is refused. With `op=None` (an operator that does not
    exist in this torch) nothing is registered.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if op is not None:
            wants_meta = "meta_outputs" in inspect.signature(function).parameters

            def call(meta: Any, *args: Any, **kwargs: Any) -> Any:
                if wants_meta:
                    kwargs["meta_outputs"] = pytree.tree_map_only(torch.Tensor, TensorSpec, meta)
                return function(*args, **kwargs)

            call.__wrapped__ = function  # type: ignore[attr-defined]  # errors point at the user's function
            add(op, call, family=USERS, takes_context=False)
        return function

    return register
