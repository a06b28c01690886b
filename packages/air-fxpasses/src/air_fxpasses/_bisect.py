"""Lets torch's `CompilerBisector` leave out the parts of a compilation one by one.

    TORCH_BISECT_BACKEND=air TORCH_BISECT_SUBSYSTEM=fx_passes TORCH_BISECT_MAX=3 python model.py

runs the first passes only; `CompilerBisector.do_bisect` searches for the first part that breaks a program, once
`register_bisection()` has told it that the backend exists. Each package asks `is_left_out` before it uses one of its
parts; outside a bisection the answer is no, and costs one attribute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from torch._inductor.compiler_bisector import BACKENDS, BisectSubsystem, CompilerBisector

Part = Literal["fx_passes", "streams", "converters", "ge_passes", "captures"]

BACKEND: Final = "air"
PARTS: Final[tuple[Part, ...]] = ("fx_passes", "streams", "converters", "ge_passes", "captures")
"""In the order in which a bisection suspects them.

Streams come before captures: a graph that is not captured may hide a missing wait by its slower calls.
"""


def register_bisection() -> None:
    """Adds the backend and its parts to the tables of torch's bisector, if they are not there."""
    known = BACKENDS.setdefault(BACKEND, [])
    present = {subsystem.name for subsystem in known}
    known.extend(BisectSubsystem(part) for part in PARTS if part not in present)


def is_left_out(part: Part, describe: Callable[[], str]) -> bool:
    """Whether a bisection in progress leaves this use of a part out; `describe` names it in one line."""
    if not CompilerBisector.bisection_enabled:
        return False
    return bool(CompilerBisector.disable_subsystem(BACKEND, part, lambda: " ".join(describe().split())))
