"""A converter and a prototype out of a torch schema, for operators that exist in CANN under the same signature.

An operator written for Ascend (AscendC, or Triton packed as a custom operator) has one type in CANN and one operator in
torch, with the same inputs, attributes and outputs, so that nothing has to be written by hand::

    register_by_schema(torch.ops.mylib.my_scale.default)  # MyScale(x) -> y {factor: float}

The package of the custom operator brings its kernel and its shape function; the reference engine needs a kernel,
`air_geir.reference.kernel("MyScale")`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters import add, name_of
from air_geir.converters._rows import by_schema
from air_geir.errors import ConverterError
from air_geir.prototypes import REQUIRED, AttrSpec, PortKind, PortSpec, Prototype, register
from air_geir.types import AttrKind
from air_graph import effects_of

_PORTS = {
    "Tensor": PortKind.REQUIRED, "Optional[Tensor]": PortKind.OPTIONAL, "List[Tensor]": PortKind.DYNAMIC,
}  # fmt: skip
_ATTRS = {
    "int": AttrKind.INT, "float": AttrKind.FLOAT, "bool": AttrKind.BOOL, "str": AttrKind.STR,
    "number": AttrKind.FLOAT, "List[int]": AttrKind.LIST_INT, "List[float]": AttrKind.LIST_FLOAT,
    "List[bool]": AttrKind.LIST_BOOL, "List[str]": AttrKind.LIST_STR,
}  # fmt: skip
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def register_by_schema(op: torch._ops.OpOverload, op_type: str | None = None) -> Prototype:
    """Registers the prototype that the schema describes, if it is new, and the converter that emits it.

    Args:
        op: the torch operator: tensors in, fresh tensors out, everything else an attribute.
        op_type: the operator type in CANN; left out, the name in capitals: `my_scale` is `MyScale`.

    A schema that says more than a prototype can hold is refused, with what to write instead.
    """
    prototype = register(prototype_of(op, op_type))
    binding = Binding({p.name: p.name for p in prototype.inputs}, {a.name: a.name for a in prototype.attrs})
    add(name_of(op), converter_of(op, prototype, binding), family="user")
    return prototype


@dataclass(frozen=True)
class Binding:
    """Which argument of the torch operator each input and each attribute of the operator type is."""

    inputs: Mapping[str, str]
    attributes: Mapping[str, str]


def converter_of(op: torch._ops.OpOverload, prototype: Prototype, binding: Binding) -> Callable[..., Any]:
    """The converter that emits one operator with the arguments as they are bound."""

    def body(ctx: Context, given: dict[str, Any]) -> Value | tuple[Value, ...]:
        attrs = {
            spec.name: _fixed(ctx, spec, given[binding.attributes[spec.name]]) for spec in prototype.attrs
        }
        metas = list(ctx.meta) if isinstance(ctx.meta, (list, tuple)) else [ctx.meta]
        made = ctx.emit_many(
            prototype.op_type, *(given[binding.inputs[port.name]] for port in prototype.inputs), attrs=attrs,
            dtype=[m.dtype for m in metas], shape=[m.shape for m in metas],
        )  # fmt: skip
        return made if isinstance(ctx.meta, (list, tuple)) else made[0]

    return by_schema(op._schema, body, __name__)


def prototype_of(op: torch._ops.OpOverload, op_type: str | None = None) -> Prototype:
    """The prototype a schema describes: tensors are inputs, other arguments attributes, results `y` or as named."""
    schema = op._schema
    if schema.is_mutable or effects_of(op).hides_writes:
        _refuse(op, "it writes to its arguments", "write a converter that sets ctx.written")
    inputs, attrs = [], []
    for argument in schema.arguments:
        kind = str(argument.type)
        if kind in _PORTS:
            inputs.append(PortSpec(argument.name, _PORTS[kind]))
        elif kind in _ATTRS:
            default = argument.default_value if argument.has_default_value() else REQUIRED
            attrs.append(AttrSpec(argument.name, _ATTRS[kind], _plain(_ATTRS[kind], default)))
        else:
            _refuse(
                op,
                f"{argument.name} is {kind}, which is neither an input nor an attribute",
                "write a converter",
            )
    results = schema.returns
    for result in results:
        if str(result.type) != "Tensor":
            _refuse(op, f"it gives {result.type}", "write a converter")
    if not results:
        _refuse(op, "it has no result", "write a converter")
    names = [r.name or ("y" if len(results) == 1 else f"y{at}") for at, r in enumerate(results)]
    chosen = op_type or "".join(part.capitalize() for part in schema.name.rpartition("::")[2].split("_"))
    return Prototype(chosen, tuple(inputs), tuple(map(PortSpec, names)), tuple(attrs))


def _plain(kind: AttrKind, value: object) -> object:
    if kind is AttrKind.FLOAT and isinstance(value, int):
        return float(value)
    return tuple(value) if isinstance(value, list) else value


def _fixed(ctx: Context, spec: AttrSpec, value: Any) -> object:
    """The value of an attribute, which has to be known when the graph is made."""
    for one in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(one, (*_SYMBOLIC, Value)):
            ctx.refuse(
                f"{spec.name} is known only at run time, and is an attribute",
                "make it static, or pass it as a tensor",
            )
    return _plain(spec.kind, value)


def _refuse(op: torch._ops.OpOverload, why: str, advice: str) -> None:
    raise ConverterError(f"{name_of(op)} cannot be converted by its schema: {why}", advice=advice)
