"""Fusion patterns of the `npu::` operators: a rule a file, each with its rows of the table.

A row is inactive until its operators are loaded. Where a pattern is found and a condition of the fused kernel does
not hold, the match is refused with that condition.
"""

from __future__ import annotations

from typing import Final

from air_fxpasses.npu_ops.fusions import (
    _add_rms_norm_cast,
    _add_rms_norm_cast_merged,
    _add_rms_norm_dynamic_quant,
    _add_rms_norm_dynamic_quant_merged,
    _add_rms_norm_quant,
    _transpose_batchmatmul,
    _transpose_both_batchmatmul,
)
from air_fxpasses.patterns import FusionPattern, register_pattern, registered_patterns

__all__ = ["PATTERNS", "register_fusions"]

#: From the longest to the shortest, so that a short one does not take what a long one needs.
PATTERNS: Final[tuple[FusionPattern, ...]] = (
    *_add_rms_norm_dynamic_quant_merged.ROWS,
    *_add_rms_norm_dynamic_quant.ROWS,
    *_add_rms_norm_quant.ROWS,
    *_add_rms_norm_cast_merged.ROWS,
    *_add_rms_norm_cast.ROWS,
    *_transpose_both_batchmatmul.ROWS,
    *_transpose_batchmatmul.ROWS,
)


def register_fusions() -> None:
    """Adds the rows to the table of fusion patterns; those that are there already stay."""
    known = {row.name for row in registered_patterns()}
    for pattern in PATTERNS:
        if pattern.name not in known:
            register_pattern(pattern, later=True)  # traced by the first graph that may hold it
