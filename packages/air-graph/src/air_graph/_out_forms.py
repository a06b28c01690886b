"""The `.out` form of an operator: the overload that writes the same values into given memory.

    aten::add.Tensor(self, other, *, alpha) -> Tensor
    aten::add.out(self, other, *, alpha, out!) -> Tensor(out!)

Derived from the schemas: an overload with the same arguments in the same order and, by keyword, as many written ones
as there are results. What torch generates where no kernel was written ("compute, then copy") counts as having none: it
would save nothing. Which kernels were written depends on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch._ops import OpOverload

from air_graph._operators import argument_problem, find_operator, is_written, name_of, qualified
from air_graph._operators import written_arguments as written
from air_graph.errors import BadRegistration

_TABLE: Final = ".out forms"
_KEYS: Final = {"cpu": "CPU", "cuda": "CUDA"}
_EVERYWHERE: Final = "CompositeExplicitAutogradNonFunctional"  # torch's own, for structured kernels
_SPACIOUS: Final = frozenset(
    (
        torch.ops.aten.binary_cross_entropy.default,
        torch.ops.aten.huber_loss.default,
        torch.ops.aten.mse_loss.default,
        torch.ops.aten.smooth_l1_loss.default,
    )
)
"""Losses whose `.out` kernels put the losses of all elements into the result, before they are one."""
_ADDING: Final = frozenset((torch.ops.aten._compute_linear_combination.default,))
"""Operators whose `.out` kernels add to what they find in the result."""
_rows: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class OutForm:
    """`out` computes what `functional` returns into its arguments `names`, one per result."""

    functional: OpOverload
    out: OpOverload
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """The written argument of an operator with one result."""
        (name,) = self.names
        return name


def register_out_form(functional: str, out: str) -> None:
    """Declares that `out` (`"ns::op.overload"`) is `functional` with written arguments for its results.

    Needed only where the two are not overloads of one operator. Contradicting the schemas is refused.
    """
    functional, out = qualified(functional, _TABLE), qualified(out, _TABLE)
    if functional in _rows:
        raise BadRegistration(_TABLE, functional, "it is registered already")
    first, second = find_operator(functional), find_operator(out)
    if first is not None and second is not None:
        _checked(first, second)
    _rows[functional] = out
    out_form_of.cache_clear()


def registered_out_forms() -> tuple[tuple[str, str], ...]:
    """Every registered row, loaded or not."""
    return tuple(_rows.items())


def unregister_out_form(functional: str) -> None:
    """Takes a row out again."""
    del _rows[qualified(functional, _TABLE)]
    out_form_of.cache_clear()


@cache
def out_form_of(target: Any, device: str = "cpu") -> OutForm | None:
    """The `.out` form of `target` on devices of a type: registered, or derived from the schemas."""
    if not isinstance(target, OpOverload) or target._schema.is_mutable or not target._schema.returns:
        return None
    if target in _SPACIOUS or target in _ADDING:
        return None
    row = _rows.get(name_of(target))
    if row is not None:
        out = find_operator(row)
        return None if out is None else _checked(target, out)
    for overload in target.overloadpacket.overloads():
        out = getattr(target.overloadpacket, overload)
        if _problem(target, out) is None and _is_direct(out, device):
            return OutForm(target, out, tuple(written(out)))
    return None


def _is_direct(out: OpOverload, device: str) -> bool:
    """Whether a kernel for the device writes the results itself."""
    keys = (_KEYS.get(device, "PrivateUse1"), _EVERYWHERE)
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(out.name(), key) for key in keys)


def _checked(functional: OpOverload, out: OpOverload) -> OutForm:
    problem = _problem(functional, out)
    if problem is not None:
        raise BadRegistration(_TABLE, str(functional), problem)
    return OutForm(functional, out, tuple(written(out)))


def _problem(functional: OpOverload, out: OpOverload) -> str | None:
    if functional._schema.is_mutable:
        return f"{functional} writes its arguments: {functional._schema}"
    results = [a for a in out._schema.arguments if is_written(a)]
    wanted = len(functional._schema.returns)
    if len(results) != wanted:
        names = [a.name for a in results] or "nothing"
        return f"{out} writes {names}, not one argument for each of {wanted} results"
    for argument in results:
        if not argument.kwarg_only or str(argument.type) != "Tensor":
            return f"{out} takes '{argument.name}' otherwise than as a tensor by keyword"
    return argument_problem(functional, out, but=tuple(a.name for a in results))
