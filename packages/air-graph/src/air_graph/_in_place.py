"""Calls in place: which operator gives back what one writes, and what calls of torch write by their names.

aten.add_(x, 1)                                      aten.add gives it back
x.add_(1)   F.relu_(x)   x += 1   x[0] = 1           as Dynamo writes them: no schema says that x is written
"""

from __future__ import annotations

import operator
from typing import Any, Final

from torch._ops import OpOverload
from torch.fx import Node

from air_graph._effects import effects_of
from air_graph._operators import find_operator

_OF_PYTHON: Final = frozenset(
    getattr(operator, name)
    for name in (
        "iadd", "iand", "iconcat", "ifloordiv", "ilshift", "imatmul", "imod", "imul", "ior", "ipow", "irshift", "isub",
        "itruediv", "ixor", "setitem",
    )
)  # fmt: skip


def functional_of(target: object) -> OpOverload | None:
    """The operator that gives back what `target` writes into its first argument, and nowhere else."""
    if not isinstance(target, OpOverload) or not (effects := effects_of(target)).writes:
        return None
    first, *rest = effects.arguments
    if effects.hides or not first.writes or any(other.aliases or other.writes for other in rest):
        return None
    schema = target._schema
    name = schema.name.removesuffix("_")
    if name == schema.name or str(schema.arguments[0].type) != "Tensor":
        return None
    return find_operator(f"{name}.{schema.overload_name or 'default'}")


def name_of_call(node: Node) -> str:
    """How a call is named, whoever defines it: `unsqueeze_` for a method, a function and an operator."""
    target: Any = node.target
    if isinstance(target, OpOverload):
        return str(target._schema.name.rpartition("::")[2])
    return target if isinstance(target, str) else str(getattr(target, "__name__", ""))


def is_named_in_place(node: Node) -> bool:
    """Whether the name of a call says that it writes its first argument, and gives that back."""
    name = name_of_call(node)
    return name.endswith("_") and not name.endswith("__")


def written_by_name(node: Node) -> tuple[Node, ...]:
    """What a call of torch, as Dynamo writes it, writes by its name, its operator or its `out`."""
    if not node.op.startswith("call_"):
        return ()
    first = node.args[:1] if is_named_in_place(node) or node.target in _OF_PYTHON else ()
    out = node.kwargs.get("out")
    found = (*first, *(out if isinstance(out, (list, tuple)) else (out,)))
    return tuple(value for value in found if isinstance(value, Node))
