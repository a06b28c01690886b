"""`register_fx_node_ge_converter`, and `declare_supported`, which lists samples of a converter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from air_backend._ge_concrete_graph.supported_declaration import Support
from air_geir import register_fx_node_ge_converter
from air_geir.ge import DataType
from air_geir.types import DataType as Types

__all__ = ["declare_supported", "register_fx_node_ge_converter", "torch_type_to_ge_type"]

_Converter = TypeVar("_Converter", bound=Callable[..., Any])


def declare_supported(samples: Sequence[Support]) -> Callable[[_Converter], _Converter]:
    """Keeps samples with a converter, in `converter.supported_cases`; nothing is called with them."""

    def keep(converter: _Converter) -> _Converter:
        converter.supported_cases = tuple(samples)  # type: ignore[attr-defined]
        return converter

    return keep


def torch_type_to_ge_type(dtype: torch.dtype) -> Any:
    """The number that the engine has for a type of torch."""
    return DataType(Types.of(dtype).api)
