"""Random programs: graphs of views, scatters, casts, concatenations and arithmetic on tensors that overlap.

A program is run eagerly as it is built; `IMPERATIVE` adds writes in place, `is_dynamic=True` symbolic sizes.  The tests
of air-aclgraph draw them too.
"""

from __future__ import annotations

from random_programs._instructions import FUNCTIONAL, IMPERATIVE
from random_programs._programs import (
    SQUARE,
    VARIED,
    Builder,
    Instruction,
    Program,
    Slot,
    build_program,
)

__all__ = [
    "FUNCTIONAL",
    "IMPERATIVE",
    "SQUARE",
    "VARIED",
    "Builder",
    "Instruction",
    "Program",
    "Slot",
    "build_program",
]
