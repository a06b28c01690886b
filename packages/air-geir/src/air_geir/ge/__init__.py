"""Building operators the way TorchAir's users write converters, for code that is ported.

    from air_geir import ge, register_fx_node_ge_converter

    @register_fx_node_ge_converter(torch.ops.mylib.scale.default)
    def convert_scale(x, factor, meta_outputs=None):
        return ge.custom_op("Muls", inputs={"x": x}, attrs={"value": ge.attr.Float(factor)}, outputs=["y"])

New converters are better written with `air_geir.converts`, which checks them against the schema and proves them.
"""

from __future__ import annotations

from air_geir.ge import attr
from air_geir.ge._builders import Cast, Clone, Const, custom_op
from air_geir.ge._names import DataType, Format, Tensor
from air_geir.ge._register import TensorSpec, register_fx_node_ge_converter

__all__ = [
    "Cast",
    "Clone",
    "Const",
    "DataType",
    "Format",
    "Tensor",
    "TensorSpec",
    "attr",
    "custom_op",
    "register_fx_node_ge_converter",
]
