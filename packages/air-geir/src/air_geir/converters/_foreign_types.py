"""Values of types that torch does not have, which travel in tensors of other types.

    int32 (4, 2)  --read_as INT4-->  INT4 (4, 16)  --held_in int32-->  int32 (4, 2)

A value of four bits lies beside its neighbours of the last axis: eight to a number of 32 bits, two to one of eight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from air_fxpasses.npu_cards import NotCovered, type_of
from air_geir.building import Context, Value
from air_geir.ir import DataType, Dim, as_dim

#: torch_npu numbers a type that torch does not have by the engine's number and this.
_FROM: Final = 256


def type_named(ctx: Context, code: Any) -> DataType:
    """The type behind torch's number of it, torch_npu's number, or a type of torch."""
    if isinstance(code, int) and code >= _FROM:
        kind = next((kind for kind in DataType if kind.api == code - _FROM), None)
        if kind is not None:
            return kind
    elif code is not None:
        try:
            return DataType.of(type_of(code, torch.int8, ""))
        except NotCovered:
            pass
    ctx.refuse(f"{code!r} is no type", "use a type of torch, or one of torch_npu such as torch_npu.hifloat8")


def read_as(ctx: Context, value: Value, kind: DataType, left: Value | None = None) -> Value:
    """The same bytes as values of a type. With the left operand of a product, `value` is the right one.

    That one may have been turned after it was packed: what lies together is its last axis but one then.
    """
    own = DataType.of(value.dtype)
    if own == kind:
        return value
    if value.is_float or kind.bits == 0 or own.bits % kind.bits:
        ctx.refuse(f"values of {own.name} cannot be read as {kind.name}", "pass a tensor of the type meant")
    times = own.bits // kind.bits
    if times == 1:
        return ctx.emit("Bitcast", value, dtype=kind, shape=value.dims, type=kind)
    if value.rank == 0:
        ctx.refuse(f"one number of {own.name} is several of {kind.name}", "pass a tensor with axes")
    if left is not None and value.rank > 1 and value.dims[-2] != left.dims[-1]:
        if value.dims[-2] * times != left.dims[-1]:
            ctx.refuse(
                f"a left operand of {left.dims[-1]} columns does not tell along which axis {value.dims[-2]} rows of "
                f"{own.name} hold {kind.name}", "mark the size that both have in common as static",
            )  # fmt: skip
        turned = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
        return ctx.transpose(_opened(ctx, ctx.transpose(value, turned), kind, times), turned)
    return _opened(ctx, value, kind, times)


def held_in(ctx: Context, value: Value, meta: torch.Tensor) -> Value:
    """The same bytes in a tensor as torch describes it."""
    kind, to = value.port.desc.dtype, DataType.of(meta.dtype)
    if kind == to:
        return value
    dims = tuple(as_dim(size) for size in meta.shape)
    if kind.bits != to.bits:
        value = ctx.reshape(value, (*dims, to.bits // kind.bits))
    return ctx.emit("Bitcast", value, dtype=meta.dtype, shape=dims, type=to)


def type_and_shape(
    ctx: Context, named: Any, given: Mapping[str, Any], meta: torch.Tensor
) -> tuple[DataType, tuple[Dim, ...]]:
    """What the engine gives for a result that torch knows as `meta`; its type is a code, or an argument names it.

    A code that no argument chose is of the cases in which torch gives bytes.
    """
    code = given[named] if isinstance(named, str) else None if meta.dtype.is_floating_point else named
    own = DataType.of(meta.dtype)
    kind = own if code is None else type_named(ctx, code)
    if kind.bits == 0 or own.bits % kind.bits:
        ctx.refuse(f"a result of {own.name} cannot hold values of {kind.name}", "ask for another type")
    dims = tuple(as_dim(size) for size in meta.shape)
    return kind, (*dims[:-1], *(last * (own.bits // kind.bits) for last in dims[-1:]))


def _opened(ctx: Context, value: Value, kind: DataType, times: int) -> Value:
    *before, last = value.dims
    opened = ctx.emit("Bitcast", value, dtype=kind, shape=(*value.dims, times), type=kind)
    return ctx.reshape(opened, (*before, last * times))
