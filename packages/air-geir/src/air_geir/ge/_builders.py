"""Builders that add operators to the graph being lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from air_geir import prototypes
from air_geir.building import Value, current_context
from air_geir.errors import PrototypeError
from air_geir.ir import Attr
from air_geir.prototypes import PortKind
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

    Describe a type that is not known yet with
    `air_geir.prototypes.register("MyOp(x, bias?) -> y {alpha: float = 1.0}")`.
    Types and shapes of the results are those torch gives for the operator being converted.
    """
    prototype = prototypes.get(op_type)
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
    dtypes = [metas[i].dtype if i < len(metas) else metas[0].dtype for i in range(total)]
    results = ctx.emit_many(op_type, *slots, attrs=given, dtype=dtypes, num_outputs=total)
    return results[0] if len(results) == 1 else results


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
