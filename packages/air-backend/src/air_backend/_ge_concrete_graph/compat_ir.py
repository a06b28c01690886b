"""`ge_op` with an `IrDef`: how converters of CANN's ops-transformer build an operator that TorchAir does not list.

The definition names inputs, attributes and results once more, in the order of CANN's prototype. AIR takes that order
from it, and the values from the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from air_geir.ge import custom_op

__all__ = ["IrDef", "ge_op", "is_cann_compat"]


class IrDef:
    """A prototype, put together by chained calls: `IrDef("MyOp").input("x", "DT_FLOAT").output("y", "DT_FLOAT")`."""

    def __init__(self, op_type: str) -> None:
        self.op_type = op_type
        self.inputs: list[str] = []
        self.attrs: list[str] = []
        self.outputs: list[str] = []

    def input(self, name: str, dtype: str = "") -> IrDef:
        self.inputs.append(name)
        return self

    def attr(self, name: str, default: object = None) -> IrDef:
        self.attrs.append(name)
        return self

    def output(self, name: str, dtype: str = "") -> IrDef:
        self.outputs.append(name)
        return self

    optional_input = dynamic_input = input
    required_attr = attr
    dynamic_output = output


def ge_op(
    op_type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    outputs: Sequence[str | tuple[str, int]] = (),
    dependencies: Sequence[Any] = (),
    node_name: str | None = None,
    ir: IrDef | None = None,
) -> Any:
    """An operator of the graph. `dependencies` says nothing here: operators stand in the order of their calls."""
    order = ir.inputs if ir is not None else ()
    ordered = {name: inputs[name] for name in order if name in inputs} | dict(inputs)
    return custom_op(op_type, inputs=ordered, attrs=attrs, outputs=outputs, node_name=node_name)


def is_cann_compat(
    op_type: str, runtime_optional_inputs: Sequence[str] = (), runtime_optional_attrs: Sequence[str] = ()
) -> str:
    """Why an optional argument cannot be used with the CANN at hand: nothing. The engine says so when it compiles."""
    return ""
