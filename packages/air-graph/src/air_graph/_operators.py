"""Finds operators by qualified name, and says what their schemas say about arguments."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node

from air_graph.errors import BadRegistration

#: The libraries whose operators keep nothing between calls, and give memory that nobody else has.
_KEEP_NOTHING: Final = frozenset({"aten", "prims", "prim", "npu", "_c10d_functional"})


def may_keep_state(target: object) -> bool:
    """Whether a call may read or leave something that no argument shows, as an operator of one's own may.

    Operators of serving engines do: one writes a cache that it finds in a global, and another reads it.
    """
    return isinstance(target, OpOverload) and target.namespace not in _KEEP_NOTHING


def qualified(name: str, table: str) -> str:
    """`ns::op` with the overload written out."""
    namespace, found, rest = name.partition("::")
    if not found or not namespace or not rest:
        raise BadRegistration(table, name, "write 'namespace::operator' or 'namespace::operator.overload'")
    return name if "." in rest else f"{name}.default"


def name_of(op: OpOverload) -> str:
    """`ns::op.overload` of a loaded operator."""
    return f"{op._schema.name}.{op._schema.overload_name or 'default'}"


def find_operator(name: str) -> OpOverload | None:
    """The loaded operator of that qualified name (`ns::op` means its default overload)."""
    namespace, _, rest = qualified(name, "operators").partition("::")
    operator, overload = rest.rsplit(".", 1)
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if packet is None or overload not in packet.overloads():
        return None
    found = getattr(packet, overload)
    return found if isinstance(found, OpOverload) else None


def called_operator(node: Node) -> OpOverload | None:
    """The operator that a node calls; of an operator without an overload, as Dynamo writes it, the default one."""
    target: Any = node.target
    if isinstance(target, OpOverloadPacket):
        target = getattr(target, "default", None)
    return target if isinstance(target, OpOverload) else None


def is_written(argument: Any) -> bool:
    """Whether the schema says that an argument is written."""
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def written_arguments(op: OpOverload) -> list[str]:
    """The names of the arguments that the schema marks as written."""
    return [a.name for a in op._schema.arguments if is_written(a)]


def argument_problem(a: OpOverload, b: OpOverload, but: tuple[str, ...] = ()) -> str | None:
    """How the arguments of `a` differ from those of `b` (leaving out `but`); `None` when they do not."""
    mine = list(a._schema.arguments)
    theirs = [x for x in b._schema.arguments if x.name not in but]
    if len(mine) != len(theirs):
        return f"{a} takes {len(mine)} arguments, {b} takes {len(theirs)}"
    for x, y in zip(mine, theirs, strict=True):
        if x.name != y.name or str(x.type) != str(y.type) or x.kwarg_only != y.kwarg_only:
            return f"argument '{x.name}: {x.type}' of {a} is '{y.name}: {y.type}' in {b}"
    return None
