"""What campaigns of random programs share: the modes, what may differ from eager, and how much may be refused."""

from __future__ import annotations

from typing import Final

MODES: Final = ("reduce-overhead", "max-autotune")

#: Strides are those that torch's fake tensors predict, in max-autotune all, and else where operators are put in place.
#: Torch holds only the significant ones to eager's: one that reaches no second element may differ (docs/limits.md).
IGNORED: Final = {
    "reduce-overhead": ("stride of a size 1",),
    "max-autotune": ("stride of a size 1", "stride of an empty tensor"),
}

ON_NPU: Final = 10  # so many times fewer programs there
REFUSED_AT_MOST: Final = 0.05  # of the programs: a backend that refuses is never wrong, and of no use
