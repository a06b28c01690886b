"""`Tensor`, `TensorSpec`, `DataType` and `Format` where converters of cann-recipes import them."""

from __future__ import annotations

from air_backend._ge_concrete_graph.fx2ge_converter import torch_type_to_ge_type
from air_geir.ge import DataType, Format, Tensor, TensorSpec

__all__ = ["DataType", "Format", "Tensor", "TensorSpec", "torch_type_to_ge_type"]
