"""Finds the kernel that writes its result into memory it is given.

    aten::add.Tensor(self, other, *, alpha) -> Tensor
    aten::add.out(self, other, *, alpha, out!) -> Tensor

The two overloads are matched by schema: same arguments in the same order, and as many written keyword-only
arguments as the functional overload has results.  An `.out` overload that PyTorch generated out of the
functional one allocates and copies by itself; it counts as having none.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

import torch
from torch._ops import OpOverload

_NATIVE_KEYS: Final = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


@dataclass(frozen=True)
class OutVariant:
    """An overload that writes into given tensors, and the names of the arguments that take them."""

    overload: OpOverload
    outs: tuple[str, ...]


def _inputs(schema: torch._C.FunctionSchema) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for a in schema.arguments if not (a.alias_info and a.alias_info.is_write)]


def _outs(schema: torch._C.FunctionSchema) -> tuple[str, ...]:
    return tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)


def _is_native(overload: OpOverload) -> bool:
    """Whether the overload has a kernel of its own rather than the generated copy-back."""
    name = overload._schema.name + "." + overload._schema.overload_name
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU"):
        return True
    return "generated" not in torch._C._dispatch_dump(name) and any(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in _NATIVE_KEYS
    )


@functools.cache
def out_variant(overload: OpOverload) -> OutVariant | None:
    """The overload that computes the same into given memory, or None."""
    schema = overload._schema
    if schema.is_mutable or not schema.returns:
        return None
    wanted = _inputs(schema)
    packet = overload.overloadpacket
    for name in packet.overloads():
        candidate: OpOverload = getattr(packet, name)
        other = candidate._schema
        outs = _outs(other)
        if len(outs) != len(schema.returns) or _inputs(other) != wanted:
            continue
        written = [a for a in other.arguments if a.name in outs]
        if all(a.kwarg_only and str(a.type) == "Tensor" for a in written) and _is_native(candidate):
            return OutVariant(candidate, outs)
    return None
