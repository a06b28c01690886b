"""Converters that are rows of a table: one operator of torch, one operator type, and how types are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from air_geir.building import Context
from air_geir.converters._registry import add, resolve, schema_line
from air_geir.converters._sample import Sample

Body = Callable[..., Any]


def register_rows(
    rows: Mapping[str, Any],
    make: Callable[[Any], Body],
    samples: Callable[[str], Sequence[Sample]],
    family: str,
) -> None:
    """Registers `make(row)` under each overload of `aten`; the schema becomes the docstring and the signature."""
    for overload, row in rows.items():
        name = overload if overload.startswith(("prims.", "npu.")) else f"aten.{overload}"
        add(name, _with_schema(name, make(row)), samples=samples(overload), family=family)


def _with_schema(name: str, body: Body) -> Body:
    """The body under the signature of its operator, so that keywords and defaults are the schema's own."""
    op = resolve(name)
    arguments = list(op._schema.arguments) if op is not None else []
    names = [a.name for a in arguments]
    defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}

    def converter(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        return body(ctx, *(given[n] for n in names))

    converter.__doc__ = schema_line(op) if op is not None else name
    converter.__name__ = name
    converter.__module__ = body.__module__
    converter.__dict__["arguments"] = names
    return converter


def each(samples: Iterable[Sample]) -> Callable[[str], Sequence[Sample]]:
    """The same samples for every row."""
    kept = tuple(samples)
    return lambda overload: kept
