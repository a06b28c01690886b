"""Which operators are collectives: every rank of a group has to start them.

Those of torch are known by their libraries; of any other library they are known by the argument that names a group, or
because they were registered.
"""

from __future__ import annotations

from typing import Final

import torch
from torch._ops import OpOverload

from air_graph._operators import find_operator

_FUNCTIONAL: Final = "_c10d_functional"
_LIBRARIES: Final = frozenset({_FUNCTIONAL, "_c10d_functional_autograd", "c10d", "_dtensor"})

#: The arguments by which operators name a group. A norm has a `group` too, which is a number.
_GROUP_ARGUMENTS: Final = ("group_name", "group", "hcom", "group_ep", "process_group", "hcom_name")
_NAMES_A_GROUP: Final = ("str", "Optional[str]", "Any")

#: Where no other library's collective is looked for.
_OF_TORCH: Final = _LIBRARIES | {"aten", "prim", "prims", "quantized", "symm_mem"}

_registered: Final[dict[OpOverload, str]] = {}
_asked: Final[dict[str, OpOverload | None]] = {}
"""The operators of other libraries, by their names, that are collectives; None for those that are none."""


def group_argument_of(target: object) -> str | None:
    """The argument by which an operator names its group; None for one that names none."""
    if not isinstance(target, OpOverload):
        return None
    if target in _registered:
        return _registered[target]
    kinds = {argument.name: str(argument.type) for argument in target._schema.arguments}
    named = (name for name in _GROUP_ARGUMENTS if name in kinds)
    return next((name for name in named if _may_name_a_group(kinds[name])), None)


def _may_name_a_group(kind: str) -> bool:
    return kind in _NAMES_A_GROUP or kind.endswith("ProcessGroup")


def register_group_argument(op: OpOverload, name: str) -> None:
    """Declares that an operator is a collective, of the group that its argument `name` gives."""
    _registered[op] = name


def is_collective(target: object) -> bool:
    """Whether an operator communicates with other ranks; waiting for such a one counts too."""
    if not isinstance(target, OpOverload):
        return False
    return target.namespace in _LIBRARIES or group_argument_of(target) is not None


def is_functional_collective(target: object) -> bool:
    """Whether an operator is one of torch's functional collectives: they run beside the program until waited for."""
    return isinstance(target, OpOverload) and target.namespace == _FUNCTIONAL


def waits_for_collective(target: object) -> bool:
    """Whether an operator waits for a functional collective."""
    return is_functional_collective(target) and target._opname == "wait_tensor"  # type: ignore[attr-defined]  # asked


def collectives_of_other_libraries() -> list[OpOverload]:
    """Those that are loaded now."""
    for name in torch._C._dispatch_get_all_op_names():
        if name not in _asked and name.partition("::")[0] not in _OF_TORCH:
            op = find_operator(name)
            _asked[name] = op if is_collective(op) else None
    return list(dict.fromkeys((*filter(None, _asked.values()), *_registered)))
