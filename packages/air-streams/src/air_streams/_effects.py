"""What an operator does to the storages of its arguments, read from its schema.

add_(Tensor(a!) self, Tensor other) -> Tensor(a!)     reads and writes self, reads other, returns self's storage
view(Tensor(a) self, SymInt[] size) -> Tensor(a)      touches nothing, returns self's storage
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._ops import OpOverload

aten = torch.ops.aten

# Ops which return their input's storage though the schema does not say so.
_HIDDEN_VIEWS: Final = frozenset({aten._unsafe_view.default, aten.lift_fresh.default})

# In-place ops which overwrite their argument without reading it.
_OVERWRITES: Final = frozenset(
    {
        aten.copy_.default,
        aten.fill_.Scalar,
        aten.fill_.Tensor,
        aten.zero_.default,
        aten.uniform_.default,
        aten.normal_.default,
        aten.bernoulli_.float,
        aten.exponential_.default,
        aten.random_.default,
        getattr(aten.random_, "from"),
        aten.random_.to,
        aten.cauchy_.default,
        aten.geometric_.default,
        aten.log_normal_.default,
    }
)

# Questions about a tensor's shape and layout: the host answers them, the device has nothing to do.
_HOST_ONLY: Final = frozenset(
    {
        aten.sym_size,
        aten.sym_stride,
        aten.sym_numel,
        aten.sym_storage_offset,
        aten.sym_is_contiguous,
        aten._assert_tensor_metadata,
    }
)


@dataclass(frozen=True)
class ArgEffect:
    """How one argument is used."""

    name: str
    reads: bool
    writes: bool
    sets: frozenset[str]


@dataclass(frozen=True)
class OpEffects:
    """How all arguments are used, and which alias sets each result belongs to (empty: a new storage)."""

    args: tuple[ArgEffect, ...]
    returns: tuple[frozenset[str], ...]
    may_copy: bool = False


def _sets(alias_info: Any) -> frozenset[str]:
    if alias_info is None:
        return frozenset()
    return frozenset(alias_info.before_set) | frozenset(alias_info.after_set)


def _arg_effect(op: OpOverload, arg: Any, only_views: bool) -> ArgEffect:
    sets = _sets(arg.alias_info)
    writes = bool(arg.alias_info is not None and arg.alias_info.is_write)
    if writes:
        overwritten = arg.is_out or op in _OVERWRITES
        return ArgEffect(arg.name, not overwritten, True, sets)
    return ArgEffect(arg.name, not (only_views and sets), False, sets)


@functools.cache
def effects_of(op: OpOverload) -> OpEffects:
    """The effects of one overload, from its schema and two short tables of exceptions."""
    schema = op._schema
    if op in _HIDDEN_VIEWS:
        alias = frozenset({"a"})
        first, *rest = schema.arguments
        args = (ArgEffect(first.name, False, False, alias), *(_arg_effect(op, a, False) for a in rest))
        return OpEffects(args, (alias,))
    if op.overloadpacket in _HOST_ONLY:
        return OpEffects((), ())
    copies = _may_copy(op)
    args = tuple(_arg_effect(op, arg, bool(op.is_view) and not copies) for arg in schema.arguments)
    own = frozenset[str]().union(*(arg.sets for arg in args))
    return OpEffects(args, tuple(_result_sets(result, own) for result in schema.returns), copies)


def _result_sets(result: Any, own: frozenset[str]) -> frozenset[str]:
    """`Tensor(a)[]` carries its set inside the list, where Python cannot look: it may be any argument's."""
    if result.alias_info is None:
        return frozenset()
    return _sets(result.alias_info) or own


def _may_copy(op: OpOverload) -> bool:
    """`reshape`, `contiguous`, `to` and others: a view of the input or a new tensor, as the input's layout has it."""
    implicit = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(op.is_view) and op.has_kernel_for_dispatch_key(implicit)
