"""Lets torch's `CompilerBisector` switch the passes of this package off one by one.

    TORCH_BISECT_BACKEND=air TORCH_BISECT_SUBSYSTEM=fx_passes TORCH_BISECT_MAX=3 python model.py

runs the first three passes only; `CompilerBisector.do_bisect` searches for the first one that breaks a
program, once `register_bisection()` has told it that the backend exists.
"""

from __future__ import annotations

from typing import Final

from torch._inductor.compiler_bisector import BACKENDS, BisectSubsystem, CompilerBisector

BACKEND: Final = "air"
SUBSYSTEM: Final = "fx_passes"


def register_bisection() -> None:
    """Adds the backend and its subsystem to the tables of torch's bisector, if they are not there."""
    known = BACKENDS.setdefault(BACKEND, [])
    if not any(subsystem.name == SUBSYSTEM for subsystem in known):
        known.append(BisectSubsystem(SUBSYSTEM))


def is_disabled(pass_name: str) -> bool:
    """Whether a bisection in progress leaves this pass out."""
    return bool(CompilerBisector.disable_subsystem(BACKEND, SUBSYSTEM, lambda: pass_name))
