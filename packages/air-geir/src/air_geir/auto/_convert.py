"""Makes the converter of an operator from the description of the operator that CANN knows by its name."""

from __future__ import annotations

import logging
from typing import Final

import torch

from air_geir._by_schema import Binding, converter_of
from air_geir.auto._op_info import known_operators
from air_geir.converters import Converter, name_of
from air_geir.errors import CannotConvert
from air_geir.prototypes import Prototype, find, register
from air_graph import effects_of

log = logging.getLogger(__name__)

_TENSORS: Final = ("Tensor", "Optional[Tensor]", "List[Tensor]")
_made: Final[dict[str, Converter]] = {}
_OF_TORCH: Final = ("aten", "prim", "prims", "higher_order", "_c10d_functional", "inductor")


def automatic(op: object) -> Converter | None:
    """The converter of `op`; None where no package of custom operators has an operator of its name.

    One that has the name and other arguments is an error: somebody meant it.
    """
    if (known := made_for(name_of(op))) is not None:
        return known
    if not isinstance(op, torch._ops.OpOverload) or op.namespace in _OF_TORCH:
        return None
    described = known_operators().get(type_of(op))
    if described is None:
        return None
    prototype = find(described.op_type) or register(described)
    binding = _bind(op, prototype)
    converter = Converter(name_of(op), converter_of(op, prototype, binding), family="automatic")
    converter.function.__qualname__ = f"{prototype.op_type}({_as_text(binding)})"
    log.info("%s becomes %s of CANN by itself: %s", name_of(op), prototype, _as_text(binding))
    _made[name_of(op)] = converter
    return converter


def made_for(target: str) -> Converter | None:
    """The converter that was made for an operator before: only graphs of devices use it, so it is not registered."""
    return _made.get(target)


def type_of(op: torch._ops.OpOverload) -> str:
    """The type in CANN that an operator's name stands for: `npu::npu_my_scale` and `lib::my_scale` are `MyScale`."""
    name = op._schema.name.rpartition("::")[2].removeprefix("npu_")
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _bind(op: torch._ops.OpOverload, prototype: Prototype) -> Binding:
    schema = op._schema
    if schema.is_mutable or effects_of(op).hides_writes:
        _refuse(op, prototype, "it writes its arguments")
    tensors = [a.name for a in schema.arguments if str(a.type) in _TENSORS]
    others = [a.name for a in schema.arguments if str(a.type) not in _TENSORS]
    if any(str(a.type) == "number" for a in schema.arguments):
        _refuse(op, prototype, "it takes a number of any type (Scalar)")
    if len(schema.returns) != len(prototype.outputs):
        _refuse(op, prototype, f"it gives {len(schema.returns)} results, that one {len(prototype.outputs)}")
    inputs = _pairs(op, prototype, "inputs", [p.name for p in prototype.inputs], tensors)
    attributes = _pairs(op, prototype, "attributes", [a.name for a in prototype.attrs], others)
    return Binding(inputs, attributes)


def _pairs(
    op: torch._ops.OpOverload, prototype: Prototype, what: str, wanted: list[str], given: list[str]
) -> dict[str, str]:
    """Which argument is which input or attribute: by name, or all of them in order."""
    if set(wanted) == set(given):
        return {name: name for name in wanted}
    if len(wanted) != len(given):
        _refuse(op, prototype, f"its {what} are {', '.join(given) or 'none'}")
    return dict(zip(wanted, given, strict=True))


def _as_text(binding: Binding) -> str:
    pairs = {**binding.inputs, **binding.attributes}
    return ", ".join(f"{theirs}={ours}" for theirs, ours in pairs.items())


def _refuse(op: torch._ops.OpOverload, prototype: Prototype, why: str) -> None:
    raise CannotConvert(
        f"{name_of(op)} has the name of {prototype} of a package of custom operators, and {why}",
        advice="make the two agree, or write a converter",
    )
