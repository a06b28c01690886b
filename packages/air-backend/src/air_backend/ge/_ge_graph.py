"""Names of converters of cann-recipes and ops-transformer, where they import them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from air_backend._ge_concrete_graph.fx2ge_converter import torch_type_to_ge_type
from air_geir.ge import DataType, Format, Tensor, TensorSpec

__all__ = ["DataType", "Format", "Tensor", "TensorSpec", "auto_convert_to_tensor", "torch_type_to_ge_type"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def auto_convert_to_tensor(*_: Sequence[Any], **__: Any) -> Callable[[_Function], _Function]:
    """A decorator of operators: the function as it is. An operator makes constants of the numbers it is given."""

    def keep(function: _Function) -> _Function:
        return function

    return keep
