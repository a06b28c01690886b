"""Builders that add operators to the graph being lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from air_geir import prototypes
from air_geir.building import Value, current_context
from air_geir.errors import PrototypeError
from air_geir.ir import Attr
from air_geir.prototypes import AttrSpec, PortKind, PortSpec
from air_geir.types import DataType


def Const(  # noqa: N802 - TorchAir's name
    v: Any, dtype: Any = None, node_name: str | None = None, readable: bool = True
) -> Value:
    """A constant. Python fractions become float32, integers int64, an empty list int32."""
    if dtype is None:
        tensor = v if isinstance(v, torch.Tensor) else torch.tensor(v)
        chosen = torch.int32 if isinstance(v, list) and not v else tensor.dtype
    else:
        chosen = _torch_dtype(dtype)
    return current_context().const(v, chosen)


def Cast(  # noqa: N802 - TorchAir's name
    x: Value, *, dst_type: Any, dependencies: Sequence[Value] = (), node_name: str | None = None
) -> Value:
    """The value in another type."""
    result = current_context().emit(
        "Cast", x, dtype=_torch_dtype(dst_type), shape=x.shape, dst_type=_number(dst_type)
    )
    return _after(result, dependencies)


def Clone(  # noqa: N802 - TorchAir's name
    x: Value, *, dependencies: Sequence[Value] = (), node_name: str | None = None
) -> Value:
    """A copy."""
    return _after(current_context().emit("TensorMove", x, shape=x.shape), dependencies)


def custom_op(
    op_type: str,
    *args: Any,
    inputs: Mapping[str, Any] | None = None,
    outputs: Sequence[str | tuple[str, int]] | None = None,
    attrs: Mapping[str, Any] | None = None,
    node_name: str | None = None,
) -> Any:
    """An operator by its prototype: positional arguments (inputs, then attributes), or dictionaries by name.

    A type that no table has is what the dictionaries say: inputs and outputs in their order, an input that is None is
    optional, one that is a list is dynamic. `air_geir.prototypes.register("MyOp(x, bias?) -> y {alpha: float = 1.0}")`
    describes it once, and then each use is checked.
    Types and shapes of the results are those torch gives for the operator being converted; a result that has the name
    of an input is of that input's type.
    """
    prototype = prototypes.find(op_type) or _as_used(op_type, args, inputs, outputs, attrs)
    if args and (inputs or attrs):
        raise PrototypeError(
            f"{op_type} is given positional arguments and dictionaries", advice="use one of the two"
        )
    if args:
        count = len(prototype.inputs)
        inputs = dict(zip((p.name for p in prototype.inputs), args[:count], strict=False))
        attrs = dict(zip((a.name for a in prototype.attrs), args[count:], strict=False))
    slots = [(inputs or {}).get(p.name) for p in prototype.inputs]
    unknown = set(inputs or {}) - {p.name for p in prototype.inputs}
    if unknown:
        raise PrototypeError(
            f"{op_type} has no input {', '.join(sorted(unknown))}", advice=f"prototype: {prototype}"
        )
    given = {name: _plain(value) for name, value in (attrs or {}).items() if value is not None}
    ctx = current_context()
    metas = list(ctx.meta) if isinstance(ctx.meta, (list, tuple)) else [ctx.meta]
    total = _count(prototype, outputs, len(metas))
    dtypes = _dtypes(prototype, inputs or {}, metas, total)
    results = ctx.emit_many(prototype, *slots, attrs=given, dtype=dtypes, num_outputs=total)
    return results[0] if len(results) == 1 else results


def _dtypes(
    prototype: prototypes.Prototype, inputs: Mapping[str, Any], metas: Sequence[Any], total: int
) -> list[torch.dtype]:
    """The types of the results: one each from torch, or those of torch for what is not an input written in place."""
    if total <= len(metas):
        return [meta.dtype for meta in metas[:total]]
    written = {port.name: inputs[port.name].dtype for port in prototype.outputs if port.name in inputs}
    rest = [meta.dtype for meta in metas]
    found = []
    for port in prototype.outputs[:total]:
        dtype = written.get(port.name)
        found.append(dtype if dtype is not None else rest.pop(0) if len(rest) > 1 else rest[0])
    return found + [metas[0].dtype] * (total - len(found))


def _as_used(
    op_type: str,
    args: Sequence[Any],
    inputs: Mapping[str, Any] | None,
    outputs: Sequence[str | tuple[str, int]] | None,
    attrs: Mapping[str, Any] | None,
) -> prototypes.Prototype:
    """The prototype that one call describes; the call has to name everything."""
    if args or inputs is None or outputs is None:
        prototypes.get(op_type)  # the error that names what is near, and how to describe the type
    kinds = {None: PortKind.OPTIONAL, list: PortKind.DYNAMIC, tuple: PortKind.DYNAMIC}
    ports = [
        PortSpec(name, kinds.get(None if value is None else type(value), PortKind.REQUIRED))
        for name, value in (inputs or {}).items()
    ]
    results = [
        PortSpec(one[0], PortKind.DYNAMIC) if isinstance(one, tuple) else PortSpec(one)
        for one in outputs or ()
    ]
    specs = [
        AttrSpec(name, Attr.guess(value).kind) for name, value in (attrs or {}).items() if value is not None
    ]
    return prototypes.Prototype(op_type, tuple(ports), tuple(results), tuple(specs))


def _count(
    prototype: prototypes.Prototype, outputs: Sequence[str | tuple[str, int]] | None, results: int
) -> int:
    if outputs is not None:
        return sum(o[1] if isinstance(o, tuple) else 1 for o in outputs)
    dynamic = any(p.kind is PortKind.DYNAMIC for p in prototype.outputs)
    return results if dynamic else len(prototype.outputs)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Attr) else value


def _after(value: Value, dependencies: Sequence[Value]) -> Value:
    if dependencies:
        value.port.node.run_after(*(d.port for d in dependencies))
    return value


def _torch_dtype(dtype: Any) -> torch.dtype:
    return dtype if isinstance(dtype, torch.dtype) else _data_type(dtype).torch


def _data_type(dtype: Any) -> DataType:
    return DataType.from_api(dtype) if isinstance(dtype, int) else DataType.of(dtype)


def _number(dtype: Any) -> int:
    return _data_type(dtype).api
