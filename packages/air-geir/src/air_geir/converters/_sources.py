"""Where the inputs and attributes of an operator type come from: what each `Source` of a card is in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from air_fxpasses.npu_cards import (
    Count,
    Fixed,
    InType,
    OrDefault,
    OrElse,
    OrEmpty,
    OrSize,
    PackedScale,
    ReadAs,
    Respelled,
    Source,
    ThreeInOne,
    TypeNumber,
    TypeOfResult,
    packs_scale,
)
from air_geir.building import Context, Value
from air_geir.converters._foreign_types import read_as, type_named
from air_geir.types import DataType

Given = Mapping[str, Any]
_BITS: Final = 16


def value_of(ctx: Context, source: Source, given: Given, found: Given) -> Any:
    """The value of a source: `given` are the arguments of the call, `found` the inputs before this one."""
    if isinstance(source, str):
        return given[source]
    if isinstance(source, ReadAs):
        return _read(ctx, source, given[source.argument], given, found.get(source.times))
    return _VALUES[type(source)](ctx, source, given)


def _respelled(ctx: Context, source: Respelled, given: Given) -> Any:
    value = given[source.argument]
    if value not in source.codes:
        ctx.refuse(
            f"{source.argument} {value!r} is unknown", f"use one of {', '.join(map(str, source.codes))}"
        )
    return source.codes[value]


def _or_else(ctx: Context, source: OrElse, given: Given) -> Any:
    value = given[source.argument]
    return given[source.other] if value is None else value


def _or_default(ctx: Context, source: OrDefault, given: Given) -> Any:
    value = given[source.argument]
    return source.otherwise if value is None else value


def _or_empty(ctx: Context, source: OrEmpty, given: Given) -> Any:
    value = given[source.argument]
    return [ctx.fill((0,), 0, torch.float32)] if value is None else value


def _or_size(ctx: Context, source: OrSize, given: Given) -> int:
    """The size must be known: it is an attribute."""
    first = given[source.argument] or given[source.of].dims[0]
    if not isinstance(first, int):
        ctx.refuse(
            f"the size of {source.of} is an attribute here, and it is {first}", "mark that size as static"
        )
    return first


def _type_number(ctx: Context, source: TypeNumber, given: Given) -> DataType | None:
    value = given[source.argument]
    code = source.otherwise if value is None else value
    return None if code is None else type_named(ctx, code)


def _type_of_result(ctx: Context, source: TypeOfResult, given: Given) -> DataType:
    code = given[source.argument] if source.argument else None
    return DataType.of(ctx.out_dtype) if code is None else type_named(ctx, code)


def _three_in_one(ctx: Context, source: ThreeInOne, given: Given) -> int:
    sizes: Sequence[int] = given[source.argument] or (0, 0, 0)
    if len(sizes) != 3 or not all(0 <= size < 1 << _BITS for size in sizes):
        ctx.refuse(
            f"{source.argument} is {list(sizes)}", "give three sizes below 65536: rows, columns, depth"
        )
    rows, columns, depth = sizes
    return rows << 2 * _BITS | columns << _BITS | depth


def _in_type(ctx: Context, source: InType, given: Given) -> Value | None:
    value = given[source.argument]
    return None if value is None else ctx.cast(value, source.dtype)


def _packed_scale(ctx: Context, source: PackedScale, given: Given) -> Value:
    plain = ReadAs(source.argument, source.type)
    scale: Value = _read(ctx, plain, given[source.argument], given, None)
    by_rows = given["pertoken_scale"] is not None
    if not packs_scale(given["x1"].dtype, scale.dtype, by_rows, ctx.out_dtype):
        return scale
    return ctx.emit("TransQuantParamV2", scale, given["offset"], dtype=torch.uint64, shape=scale.dims)


_VALUES: Final[Mapping[type, Callable[[Context, Any, Given], Any]]] = {
    Fixed: lambda _, source, __: source.value,
    Respelled: _respelled,
    OrDefault: _or_default,
    OrElse: _or_else,
    OrEmpty: _or_empty,
    OrSize: _or_size,
    Count: lambda _, source, given: len(given[source.argument]),
    TypeOfResult: _type_of_result,
    TypeNumber: _type_number,
    ThreeInOne: _three_in_one,
    InType: _in_type,
    PackedScale: _packed_scale,
}


def _read(ctx: Context, source: ReadAs, value: Any, given: Given, left: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_read(ctx, source, one, given, left) for one in value]
    if value is None:
        return None
    code = given[source.type] if source.type else None
    code = source.standing_for.get(value.dtype) if code is None else code
    if code is None:
        return value
    kind = type_named(ctx, code)
    if source.is_whole and kind.bits < DataType.INT8.bits:
        ctx.refuse(f"{source.argument} of four bits has no operator here", "use a type of eight bits")
    return read_as(ctx, value, kind, left[0] if isinstance(left, (list, tuple)) else left)
