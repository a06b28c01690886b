"""Printing from inside a graph. The operator is named by qualified name: the package that defines it may be absent."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.ir import DataType, TensorDesc


@converts("air_backend.print.default")
def print_tensors(
    ctx: Context, tensors: Sequence[Value], template: str, hole: str, size: int, detail: bool
) -> None:
    """print(Tensor[] tensors, str template, str hole, int size, bool detail) -> ()

    The text has a hole for every tensor, and with `detail` one more behind it for its shape.
    """
    values: list[Value] = []
    for tensor in tensors:
        values.append(ctx.cast(tensor, torch.float32) if tensor.dtype == torch.bfloat16 else tensor)
        if detail:
            values.append(ctx.shape_of(tensor))
    text = ctx.emit(
        "StringFormat",
        values,
        template=template,
        placeholder=hole,
        summarize=size,
        dtype=torch.uint8,
        shape=(),
    )
    text.port.desc = TensorDesc(DataType.STRING, ())
    ctx.graph.add("PrintV2", text.port).set_attr("_kernel", "extend")
