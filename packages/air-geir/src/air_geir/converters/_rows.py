"""Converters that are rows of a table: one operator of torch, one operator type, and how types are chosen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from air_geir import prototypes
from air_geir.building import Context
from air_geir.converters._precision import attributes_must_fit
from air_geir.converters._registry import add, resolve
from air_geir.converters._sample import Sample
from air_geir.types import AttrKind

Body = Callable[..., Any]
_ROW = re.compile(r"(\w+)\(([\w ]*)\)(?: \{([\w= ]+)\})?")


def by_schema(
    schema: torch.FunctionSchema, body: Callable[[Context, dict[str, Any]], Any], module: str
) -> Body:
    """A converter with the parameters of a schema; its body is given all arguments by name, in their order."""
    names = [a.name for a in schema.arguments]
    defaults = {a.name: a.default_value if a.has_default_value() else None for a in schema.arguments}

    def convert(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        return body(ctx, {**defaults, **dict(zip(names, args, strict=False)), **kwargs})

    convert.__doc__, convert.__module__ = str(schema).partition("::")[2], module
    convert.arguments = names  # type: ignore[attr-defined]  # compared with the schema instead of the parameters
    return convert


def register_rows(
    rows: Mapping[str, Any],
    make: Callable[[Any], Body],
    samples: Callable[[str], Sequence[Sample]],
    family: str,
) -> None:
    """Registers `make(row)`, a function of the schema's arguments, under each overload of `aten` or `prims`."""
    for overload, row in rows.items():
        _register(overload, _in_order(make(row)), samples(overload), family)


def _in_order(body: Body) -> Body:
    return lambda ctx, given: body(ctx, *given.values())


def _register(overload: str, body: Body, samples: Sequence[Sample], family: str) -> None:
    name = overload if overload.startswith("prims.") else f"aten.{overload}"
    op = resolve(name)
    if op is not None:  # another torch may not have it
        add(name, by_schema(op._schema, body, f"{__package__}.{family}"), samples=samples, family=family)


def register_direct(
    rows: Mapping[str, tuple[str, Sequence[Sample]]],
    family: str,
    prepare: Callable[..., Iterable[Any]] = lambda ctx, *operands: operands,
) -> None:
    """Registers operators that one operator type computes: which arguments are its inputs, and which its attributes.

    `"elu.default": ("Elu(self) {alpha scale}", samples)`; `{attribute=argument}` where the names differ. `prepare`
    brings the operands into the types that the operator type takes. A number that a double keeps and an attribute does
    not is left to the operator's decomposition.
    """
    for overload, (row, samples) in rows.items():
        _register(overload, _direct(row, prepare), samples, family)


def _direct(row: str, prepare: Callable[..., Iterable[Any]]) -> Body:
    match = _ROW.fullmatch(row)
    assert match is not None, row
    op_type, inputs, words = (part or "" for part in match.groups())
    specs = prototypes.get(op_type).attr
    pairs = [word.partition("=") for word in words.split()]
    attributes = [(specs[key], argument or key) for key, _, argument in pairs]

    def body(ctx: Context, given: dict[str, Any]) -> Any:
        numbers = [given[argument] for spec, argument in attributes if spec.kind is AttrKind.FLOAT]
        attributes_must_fit(ctx, *numbers, dtype=ctx.out_dtype)
        operands = prepare(ctx, *(given[name] for name in inputs.split()))
        attrs = {spec.name: as_attribute(spec, given[argument]) for spec, argument in attributes}
        return ctx.emit(op_type, *operands, attrs=attrs)

    return body


def as_attribute(spec: prototypes.AttrSpec, value: Any) -> Any:
    """An argument as an attribute takes it: a whole number becomes a fraction where one is asked for."""
    return float(value) if spec.kind is AttrKind.FLOAT and not isinstance(value, float) else value


def each(samples: Iterable[Sample]) -> Callable[[str], Sequence[Sample]]:
    """The same samples for every row."""
    kept = tuple(samples)
    return lambda overload: kept
