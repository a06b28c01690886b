"""Passes over Ascend IR programs: what to do once a graph is lowered, before an engine takes it.

`optimize(program)` runs the default ones and gives a report that says what each changed and what it refused, and why.
"""

from __future__ import annotations

from air_geir.engines import Program
from air_geir.ge_passes._annotate import Annotate
from air_geir.ge_passes._in_place import AssignToOutput, DropCopies, WriteWithoutCopy
from air_geir.ge_passes._inputs import DropUnusedInputs, PackSizes
from air_geir.ge_passes._pass import GePass, PassResult, Refusal, Report, Step, run_passes
from air_geir.ge_passes._references import MarkReferences, is_written
from air_geir.ge_passes._side_effects import SIDE_EFFECTS, OrderPrefetches, OrderSideEffects
from air_geir.ge_passes._transposes import TransposeAfterBitcast, TransposeInProduct

DEFAULT_PASSES: tuple[GePass, ...] = (
    PackSizes(),
    DropCopies(),
    WriteWithoutCopy(),
    AssignToOutput(),
    OrderSideEffects(),
    OrderPrefetches(),
    TransposeInProduct(),
    TransposeAfterBitcast(),
    DropUnusedInputs(),
    Annotate(),
)
"""The passes of `optimize`, in order."""


def optimize(program: Program, *, references: bool = False) -> Report:
    """Run the default passes; with `references`, inputs that are written become RefData."""
    return run_passes(program, (*DEFAULT_PASSES, MarkReferences()) if references else DEFAULT_PASSES)


__all__ = [
    "DEFAULT_PASSES",
    "SIDE_EFFECTS",
    "Annotate",
    "AssignToOutput",
    "DropCopies",
    "DropUnusedInputs",
    "GePass",
    "MarkReferences",
    "OrderPrefetches",
    "OrderSideEffects",
    "PackSizes",
    "PassResult",
    "Refusal",
    "Report",
    "Step",
    "TransposeAfterBitcast",
    "TransposeInProduct",
    "WriteWithoutCopy",
    "is_written",
    "optimize",
    "run_passes",
]
