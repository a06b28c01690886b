"""TorchAir's `torchair.ge`: building Ascend IR operators in a converter of one's own."""

from __future__ import annotations

from air_geir.ge import Cast, Clone, Const, DataType, Format, Tensor, TensorSpec, attr, custom_op

__all__ = ["Cast", "Clone", "Const", "DataType", "Format", "Tensor", "TensorSpec", "attr", "custom_op"]
