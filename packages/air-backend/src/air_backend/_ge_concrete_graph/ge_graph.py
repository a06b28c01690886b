"""The names of `torchair.ge._ge_graph` at the place where old converters import them."""

from __future__ import annotations

from air_backend.ge._ge_graph import DataType, Format, Tensor, TensorSpec

__all__ = ["DataType", "Format", "Tensor", "TensorSpec"]
