"""Inputs in other memory that take over the memory of a capture, where the user allows it (`air.adopt_inputs`).

    call 1: cache A, captured where it is      call 2: cache B, and nobody has A any more
    call 2 copies B into the memory of A, and B is there from now on: later calls copy nothing

The memory that B had is given back, so whoever has its address and no tensor over it has the address of nothing. Only
the user knows that; what can be seen is asked here: B is the only tensor over memory that torch itself made, with no
view, array, saved gradient or holder in C++, and no capture of ours writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from air_aclgraph._captured import Captured
from air_aclgraph._kept import Loan
from air_aclgraph._memory import is_of_others
from air_aclgraph._moved import are_free, can_be_carried, claims_of_recordings

_ALONE: Final = torch.empty(1)._use_count()  # type: ignore[attr-defined]  # torch declares no types of it
"""Holders that a tensor has in C++ for the sake of its Python object."""


def adopted(
    captured: Captured,
    moved: Sequence[int],
    args: Sequence[Any],
    settle: Callable[[], None],
    *,
    collect: bool,
) -> bool:
    """Whether all inputs that moved lie where they were captured now; where one cannot, nothing is done.

    `settle` waits for the device: another stream may still use what callers have let go of.
    """
    memory = [captured.inputs[index] for index in moved]
    given = [args[index] for index in moved]
    if not all(can_be_carried(captured, index, args[index]) and _is_alone(args[index]) for index in moved):
        return False
    named = [id(value) for value in args]
    if any(named.count(id(tensor)) > 1 or claims_of_recordings(tensor) for tensor in given):
        return False
    if not are_free(memory, collect=collect):
        return False
    settle()
    with torch.no_grad():
        for buffer, tensor in zip(memory, given, strict=True):
            buffer.copy_(tensor)
            tensor.data = buffer
    return True


def _is_alone(tensor: Tensor) -> bool:
    """Whether nothing that torch knows of would notice that this tensor has other memory."""
    plain = type(tensor) is Tensor and not tensor.requires_grad and not tensor.is_inference()
    if not plain or tensor._base is not None or is_of_others(tensor):
        return False
    holders: int = tensor._use_count()  # type: ignore[attr-defined]
    return holders == _ALONE and not Loan.of(tensor, 1).is_held()
