"""Passes over Ascend IR programs: what to do once a graph is lowered, before an engine takes it.

`optimize(program)` runs the default ones and gives a report that says what each changed and what it refused, and why.
"""

from __future__ import annotations

from air_geir.ge_passes._annotate import Annotate
from air_geir.ge_passes._in_place import AssignToOutput, DropCopies, WriteWithoutCopy
from air_geir.ge_passes._inputs import DropUnusedInputs, PackSizes
from air_geir.ge_passes._pass import GePass, PassResult, Refusal, Report, Step, run_passes
from air_geir.ge_passes._references import MarkReferences
from air_geir.ge_passes._side_effects import (
    SIDE_EFFECTS,
    KeepCollectives,
    OrderPrefetches,
    OrderSideEffects,
)
from air_geir.ge_passes._transposes import TransposeAfterBitcast, TransposeInProduct
from air_geir.ge_passes._views import FoldViews
from air_geir.program import Program

DEFAULT_PASSES: tuple[GePass, ...] = (
    PackSizes(),
    DropCopies(),
    FoldViews(),
    WriteWithoutCopy(),
    AssignToOutput(),
    OrderSideEffects(),
    KeepCollectives(),
    OrderPrefetches(),
    TransposeInProduct(),
    TransposeAfterBitcast(),
    DropUnusedInputs(),
    Annotate(),
)
"""The passes of `optimize`, in order."""


def optimize(program: Program, *, references: bool = False, fold_views: bool = True) -> Report:
    """Run the default passes.

    Args:
        program: what is rewritten, in place.
        references: let inputs that are written become RefData.
        fold_views: let chains of views become one view.
    """
    chosen = [rewrite for rewrite in DEFAULT_PASSES if fold_views or not isinstance(rewrite, FoldViews)]
    return run_passes(program, [*chosen, MarkReferences()] if references else chosen)


__all__ = [
    "DEFAULT_PASSES",
    "SIDE_EFFECTS",
    "Annotate",
    "AssignToOutput",
    "DropCopies",
    "DropUnusedInputs",
    "FoldViews",
    "GePass",
    "KeepCollectives",
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
    "optimize",
    "run_passes",
]
