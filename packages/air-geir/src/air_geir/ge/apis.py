"""Every operator type of the tables as a function, the way TorchAir's converters call them: `ge.Muls(x, value=2.0)`.

Inputs are given by position or name, attributes by name. A result has the type that an attribute names (`dst_type`,
`dtype`), else that of the first operand, or bool for a comparison; what a converter returns is compared with torch's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from air_geir import prototypes
from air_geir.building import Value, current_context
from air_geir.errors import PrototypeError
from air_geir.ge._builders import Cast, Clone, Const, _after, _plain, _torch_dtype

__all__ = ["Cast", "Clone", "Const"]

_TYPES: Final = ("dst_type", "dtype", "out_type", "output_type", "output_dtype")


def __getattr__(name: str) -> Any:
    prototype = None if name.startswith("_") else prototypes.find(name)
    if prototype is None:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}, and no table an operator type of that name"
        )
    return _maker(prototype)


def _maker(prototype: prototypes.Prototype) -> Callable[..., Any]:
    names = [port.name for port in prototype.inputs]

    def make(
        *args: Any, dependencies: Sequence[Value] = (), node_name: str | None = None, **given: Any
    ) -> Any:
        if len(args) > len(names):
            raise PrototypeError(
                f"{prototype.op_type} takes {len(names)} inputs, and {len(args)} are given by position",
                advice=f"give attributes by name; prototype: {prototype}",
            )
        inputs = dict(zip(names, args, strict=False))
        if twice := sorted(inputs.keys() & given.keys()):
            raise PrototypeError(
                f"{prototype.op_type} is given {', '.join(twice)} twice", advice=f"prototype: {prototype}"
            )
        inputs.update({name: given.pop(name) for name in names if name in given})
        attrs = {name: _plain(value) for name, value in given.items() if value is not None}
        named = next((attrs[name] for name in _TYPES if name in attrs), None)
        made = current_context().emit_many(
            prototype,
            *(inputs.get(name) for name in names),
            attrs=attrs,
            dtype=None if named is None else _torch_dtype(named),
        )
        first, *rest = made
        return (_after(first, dependencies), *rest) if rest else _after(first, dependencies)

    make.__name__ = make.__qualname__ = prototype.op_type
    make.__doc__ = str(prototype)
    ports = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    attrs = [inspect.Parameter(spec.name, inspect.Parameter.KEYWORD_ONLY) for spec in prototype.attrs]
    make.__signature__ = inspect.Signature([*ports, *attrs])  # type: ignore[attr-defined]
    return make
