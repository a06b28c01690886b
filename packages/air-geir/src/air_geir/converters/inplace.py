"""Writes to tensors of the caller."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts, find, name_of

aten = torch.ops.aten


@converts(aten.copy_.default)
def copy_(ctx: Context, self: Value, src: Value, non_blocking: bool = False) -> Value:
    """copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"""
    if not (self.port.node.is_input or self.port.node.op_type == "Assign"):
        ctx.refuse(
            "a value inside the graph is written in place", "functionalise the graph before it is lowered"
        )
    value = ctx.broadcast(ctx.cast(src, self.dtype), self.dims)
    written = ctx.emit("Assign", self, value, shape=self.shape)
    ctx.written["self"] = written
    return written


_VIEW_KEYS = ("size", "slice_dim")


@converts("higher_order.auto_functionalized_v2")
def auto_functionalized(ctx: Context, op: torch._ops.OpOverload, **given: Any) -> tuple[Any, ...]:
    """auto_functionalized_v2(op, **arguments, _all_bases): an operator that writes, applied to copies.

    The copies are dropped again by a pass where nobody reads the old value.
    """
    converter = find(op)
    if converter is None:
        ctx.refuse(
            f"{name_of(op)} writes to its arguments and has no converter",
            "write one that sets ctx.written",
        )
    copies = [ctx.emit("TensorMove", base, shape=base.shape) for base in given["_all_bases"]]
    arguments: dict[str, Any] = {}
    owners: dict[str, int] = {}
    for argument in op._schema.arguments:
        name = argument.name
        at = given.get(f"_{name}_base_index")
        if at is None:
            arguments[name] = given.get(name)
            continue
        if any(given.get(f"_{name}_{key}") is not None for key in _VIEW_KEYS):
            ctx.refuse(f"{name_of(op)} writes to a part of a tensor", "pass the whole tensor to the operator")
        arguments[name], owners[name] = copies[at], at
    result, written = ctx.written_by(converter.function, arguments)
    for name, value in written.items():
        copies[owners[name]] = value
    returned = list(result) if isinstance(result, (list, tuple)) else [result]
    return (*(returned if op._schema.returns else [None]), *copies)
