"""Converters of torch_npu's operators, made from their cards where one operator type computes the operator.

A converter that is a function has only the parameters it reads. Other arguments of the schema are refused where a call
gives them, except for those named in `ignored`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import torch

from air_fxpasses.npu_cards import SCHEMAS, Ir, Source, arguments_of, find, operators
from air_geir import prototypes
from air_geir.building import Context, Value
from air_geir.converters._foreign_types import held_in, type_and_shape
from air_geir.converters._registry import add
from air_geir.converters._rows import as_attribute, by_schema
from air_geir.converters._sources import value_of
from air_geir.ir import as_dim
from air_geir.prototypes import PortKind
from air_geir.types import DataType

Body = Callable[[Context, dict[str, Any]], Any]
_ADVICE: Final = "pass tensors in the types they are meant in, and leave other arguments at their defaults"


def by_card(*names: str, ignored: Iterable[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the function below for operators of `npu::`; it is given the arguments that it names."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = list(inspect.signature(function).parameters.values())[1:]
        named = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        takes_all = len(named) < len(parameters)

        def body(ctx: Context, given: dict[str, Any]) -> Any:
            return function(ctx, **(given if takes_all else {name: given.get(name) for name in named}))

        for name in names:
            _register(name, body, None if takes_all else {*named, *ignored})
        return function

    return register


def converter_of(name: str) -> Callable[..., Any]:
    """The converter of an operator that one operator type computes."""
    card = find(name)
    assert card is not None
    assert card.ir is not None
    return from_one_type(card, card.ir)


class Described(Protocol):
    """An operator whose schema is known."""

    @property
    def schema(self) -> str: ...

    @property
    def parsed(self) -> torch._C.FunctionSchema: ...

    @property
    def mutated(self) -> tuple[str, ...]: ...

    @property
    def hides_writes(self) -> tuple[str, ...]: ...


def from_one_type(operator: Described, ir: Ir) -> Callable[..., Any]:
    """The converter of an operator that this operator type computes."""
    emit = _OneType(operator, ir)
    return _converter(operator.schema, emit, emit.used)


def arguments_read(operator: Described, ir: Ir) -> set[str]:
    """The arguments that its converter reads, or ignores on purpose; a call that gives others is refused."""
    return _OneType(operator, ir).used


def register_cards() -> None:
    """Registers a converter for every card that says which operator type computes it."""
    for card in operators():
        if card.ir is not None:
            add(f"npu.{card.overload}", converter_of(card.name), family="npu")


def _register(name: str, body: Body, used: set[str] | None) -> None:
    add(
        f"npu.{name}" if "." in name else f"npu.{name}.default",
        _converter(SCHEMAS[name], body, used),
        family="npu",
    )


def _converter(text: str, body: Body, used: set[str] | None) -> Callable[..., Any]:
    """The body under a schema; `used` are the arguments that are read, None for all of them."""
    schema = torch._C.parse_schema(text)
    unread = {a.name: a.default_value for a in schema.arguments if used is not None and a.name not in used}

    def checked(ctx: Context, given: dict[str, Any]) -> Any:
        for name, default in unread.items():
            value = given[name]
            if isinstance(value, Value):
                ctx.refuse(f"{name} has no operator here", _ADVICE)
            if value not in (None, [], default):
                ctx.refuse(f"{name}={value} has no operator here", _ADVICE)
        return body(ctx, given)

    convert = by_schema(schema, checked, __name__)
    convert.__doc__ = text.partition("::")[2]
    return convert


class _OneType:
    """What emits the operator type of a card."""

    def __init__(self, card: Described, ir: Ir) -> None:
        self.ir = ir
        self.prototype = prototype = prototypes.get(ir.type)
        arguments = {a.name for a in card.parsed.arguments}
        self.sources: dict[str, Source] = {
            name: ir.takes.get(name, name)
            for name in (*prototype.input_index, *prototype.attr)
            if name in ir.takes or name in arguments
        }
        self.outputs = [port.name for port in prototype.outputs]
        self.gives = ir.gives or tuple(self.outputs if card.parsed.returns else ())
        self.numbers = len(card.parsed.returns) - len(self.gives)
        #: what the type writes: output -> argument
        self.in_place = {output: str(self.sources[name]) for output, name in prototype.refs.items()}
        #: what the operator writes: output -> argument
        self.writes = {o: a for o, a in self.in_place.items() if a in card.mutated}
        if ir.writes is not None:
            self.writes = {output: argument for argument, output in ir.writes.items()}
        #: what it writes although its schema does not say so; it is given a copy
        self.hidden = {
            output: argument
            for output, argument in self.in_place.items()
            if argument in card.hides_writes and output not in self.writes
        }

    @property
    def used(self) -> set[str]:
        """The arguments that are read, or ignored on purpose."""
        named = (name for source in self.sources.values() for name in arguments_of(source))
        held = (name for name in self.ir.held.values() if isinstance(name, str))
        return {*named, *held, *self.ir.only, *self.ir.ignored, "out"}

    def __call__(self, ctx: Context, given: dict[str, Any]) -> Any:
        _check(ctx, self.ir, given)
        written = {output: given[argument] for output, argument in self.hidden.items()}
        for output, argument in self.in_place.items():
            if given[argument] is None:
                ctx.refuse(f"{argument} is written and is not given", f"pass {argument}")
            if output not in self.writes:
                given[argument] = ctx.emit("TensorMove", given[argument], shape=given[argument].shape)
        found = dict(zip(self.outputs, self._emit(ctx, given), strict=True))
        for output, argument in self.writes.items():
            value = found[output]
            ctx.written[argument] = value if output in self.in_place else stored(ctx, given[argument], value)
        for output, target in written.items():
            ctx.written[self.hidden[output]] = stored(ctx, target, found[output])
        results = self._results(ctx, given, found)
        if "out" in given:
            return into(ctx, [value for value in results if value is not None], given["out"])
        if isinstance(ctx.meta, (list, tuple)) or not results:
            return *results, *[0] * self.numbers
        return results[0]

    def _results(
        self, ctx: Context, given: Mapping[str, Any], found: Mapping[str, Value]
    ) -> tuple[Value | None, ...]:
        """The outputs that are results; where a call asks for none, the engine's has no size that torch knows of."""
        metas = ctx.meta if isinstance(ctx.meta, (list, tuple)) else [ctx.meta]
        results: list[Value | None] = []
        for name, meta in zip(self.gives, metas, strict=False):
            if meta is None:
                results.append(None)
                continue
            needed = self.ir.needs.get(name)
            absent = needed == "" or (needed is not None and given[needed] is None)
            empty = absent or [as_dim(size) for size in meta.shape] == [0]
            value = ctx.fill(meta.shape, 0, meta.dtype) if empty else found[name]
            if name in self.ir.held:
                value = held_in(ctx, value, meta)
            if value.dtype != meta.dtype:
                value = ctx.emit(
                    "Cast", value, dtype=meta.dtype, shape=meta.shape, dst_type=DataType.of(meta.dtype)
                )
            results.append(value)
        return tuple(results)

    def _emit(self, ctx: Context, given: Mapping[str, Any]) -> tuple[Value, ...]:
        values: dict[str, Any] = {}
        for name, source in self.sources.items():
            values[name] = value_of(ctx, source, given, values)
        metas = list(ctx.meta) if isinstance(ctx.meta, (list, tuple)) else [ctx.meta]
        like = {output: given[argument] for output, argument in {**self.in_place, **self.writes}.items()}
        types: dict[str, Any] = {output: value.dtype for output, value in like.items()}
        shapes = {output: value.dims for output, value in like.items()}
        for name, meta in zip(self.gives, metas, strict=False):
            types[name] = torch.float32 if meta is None else meta.dtype
            if name in self.ir.held:
                types[name], shapes[name] = type_and_shape(ctx, self.ir.held[name], given, meta)
        types |= {name: given[argument].dtype for name, argument in self.ir.typed_as.items()}
        attributes = {
            name: as_attribute(spec, values[name])
            for name, spec in self.prototype.attr.items()
            if values.get(name) is not None
        }
        return ctx.emit_many(
            self.prototype.op_type,
            *(_fed(ctx, port.kind, values.get(port.name)) for port in self.prototype.inputs),
            attrs=attributes,
            dtype=[types[name] for name in self.outputs],
            shape=[shapes.get(name) for name in self.outputs],
        )


def _check(ctx: Context, ir: Ir, given: Mapping[str, Any]) -> None:
    for name, value in ir.only.items():
        if given[name] != value:
            ctx.refuse(f"{name} {given[name]!r} has no operator here", f"use {name}={value!r}")


def _fed(ctx: Context, kind: PortKind, value: Any) -> Any:
    """What an input takes: a value, several of them, or sizes as a vector."""
    if kind is PortKind.DYNAMIC:
        return [value] if isinstance(value, Value) else list(value or ())
    return value if value is None or isinstance(value, Value) else ctx.shape(list(value))


def stored(ctx: Context, target: Value, value: Value) -> Value:
    """The new value of what an operator writes: assigned to the caller's tensor, or in place of the old value."""
    value = Value(value.port, value.dtype, target.dims)
    if target.port.node.is_input or target.port.node.op_type == "Assign":
        return ctx.emit("Assign", target, value, shape=target.shape)
    return value


def into(ctx: Context, results: Sequence[Value], out: Sequence[Value]) -> tuple[Value, ...]:
    """The results written to the tensors given for them; a tensor of another size is left as it is."""
    written = tuple(
        stored(ctx, target, result) if target.dims == tuple(as_dim(size) for size in meta.shape) else target
        for target, result, meta in zip(out, results, ctx.meta, strict=True)
    )
    ctx.written["out"] = written
    return written


register_cards()
