"""Operators that do not take a type which torch's do, and the wider one in which they compute the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

_SINGLE: Final = {torch.bfloat16: torch.float32}
_WHOLE: Final = {torch.uint8: torch.int32}
_BYTES: Final = {torch.bool: torch.uint8}

WIDER: Final[Mapping[str, Mapping[torch.dtype, torch.dtype]]] = {
    **dict.fromkeys(
        ("CumulativeLogsumexp", "GridSampler2D", "GridSampler3D", "InplaceIndexAdd", "SearchSorted"), _SINGLE
    ),
    **dict.fromkeys(
        ("ArgMaxWithValue", "ArgMinWithValue", "FloorMod", "MaskedFill", "Neg", "Square"), _WHOLE
    ),
    **dict.fromkeys(("Maximum", "Minimum"), _BYTES),
    "Sort": {**_BYTES, **_SINGLE},
}
"""By operator type. The types that each takes are in the documents of CANN's operators."""
