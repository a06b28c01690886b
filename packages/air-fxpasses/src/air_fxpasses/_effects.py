"""What a node does to memory, read off the schema of its operator.

`Tensor(a!)` is written, `Tensor(a)` is looked at through an alias, everything else is read. Nothing is
inferred from names. A callable without a schema may do anything to its arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

aten = torch.ops.aten

#: Operators that look at sizes and strides, never at elements.
METADATA_ONLY: Final[frozenset[Any]] = frozenset(
    (
        aten.sym_size.int,
        aten.sym_stride.int,
        aten.sym_numel.default,
        aten.sym_storage_offset.default,
        aten._assert_tensor_metadata.default,
        torch.ops.aten.sym_is_contiguous.default,
    )
)

#: Operators that overwrite their first argument without reading it.
_OVERWRITES_FIRST: Final[frozenset[Any]] = frozenset(
    (aten.copy_.default, aten.fill_.Scalar, aten.fill_.Tensor, aten.zero_.default)
)

_SYMBOLIC_MODULES: Final = ("torch.utils._sympy", "torch.fx.experimental.sym")

#: Operators that may hand back their argument itself although neither schema nor fake kernel says so.
_may_return_argument: set[str] = {
    "npu::npu_format_cast",
    "npu::npu_dtype_cast",
    "npu::_npu_dtype_cast",
    "npu::_npu_format_cast",
}

#: Operators that write arguments although their schema does not say so.
_undeclared_writes: set[str] = {
    "npu::npu_apply_rotary_pos_emb.default",
    "npu::npu_fused_infer_attention_score.out",
    "npu::npu_fused_infer_attention_score_v2.out",
    "npu::npu_kv_rmsnorm_rope_cache.default",
}


def register_undeclared_writes(name: str) -> None:
    """Declares that operator `name` (`"ns::op.overload"`) writes what its schema says it reads.

    It is never removed, and memory it is given is left alone.
    """
    _undeclared_writes.add(name)
    signature.cache_clear()


def has_undeclared_writes(target: Any) -> bool:
    """Whether the schema of `target` is known to be silent about writes."""
    if not isinstance(target, OpOverload):
        return False
    return f"{target._schema.name}.{target._schema.overload_name or 'default'}" in _undeclared_writes


def register_may_return_argument(name: str) -> None:
    """Declares that operator `name` (`"ns::op"`) sometimes returns its input, so its memory is left alone."""
    _may_return_argument.add(name)
    signature.cache_clear()


@dataclass(frozen=True, slots=True)
class Signature:
    """The effect of an operator, per argument."""

    plain: bool
    """Only reads: no argument is written or aliased."""
    opaque: bool
    """Nothing is known: every argument may be written, every result may alias one."""
    views: frozenset[int | str] = frozenset()
    writes: frozenset[int | str] = frozenset()
    overwrites: frozenset[int | str] = frozenset()


_PLAIN: Final = Signature(plain=True, opaque=False)
_OPAQUE: Final = Signature(plain=False, opaque=True)


@cache
def signature(target: Any) -> Signature:
    """The effects that the schema of `target` declares."""
    if not isinstance(target, OpOverload):
        return _PLAIN if _is_scalar_arithmetic(target) else _OPAQUE
    schema = target._schema
    views: set[int | str] = set()
    writes: set[int | str] = set()
    overwrites: set[int | str] = set()
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info is None:
            continue
        keys: tuple[int | str, ...] = (argument.name,) if argument.kwarg_only else (index, argument.name)
        if not argument.alias_info.is_write:
            views.update(keys)
            continue
        writes.update(keys)
        if argument.is_out or (index == 0 and target in _OVERWRITES_FIRST):
            overwrites.update(keys)
    if schema.name in _may_return_argument or has_undeclared_writes(target):
        return Signature(False, True)
    if not views and not writes:
        return _PLAIN
    return Signature(False, False, frozenset(views), frozenset(writes), frozenset(overwrites))


def _is_scalar_arithmetic(target: Any) -> bool:
    """Python operators on sizes, and the symbolic functions torch puts into graphs."""
    module = getattr(target, "__module__", None) or ""
    if module == "torch":
        return str(getattr(target, "__name__", "")).startswith("sym_")
    return module in ("_operator", "math") or module.startswith(_SYMBOLIC_MODULES)


def is_opaque(node: Node) -> bool:
    """Whether nothing is known about what `node` does to its arguments."""
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    if node.op != "call_function":
        return True
    if node.target is operator.getitem:
        return False
    return signature(node.target).opaque


def arguments(node: Node) -> Iterator[tuple[int | str, Node]]:
    """Every node among the arguments, with the position or name it is passed at (lists flattened)."""
    for index, value in enumerate(node.args):
        for leaf in _nodes_in(value):
            yield index, leaf
    for name, value in node.kwargs.items():
        for leaf in _nodes_in(value):
            yield name, leaf


def _nodes_in(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nodes_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _nodes_in(item)
    elif isinstance(value, slice):
        yield from _nodes_in((value.start, value.stop, value.step))
