"""What torch remembers of eager operators of distributed tensors, in the way of tracing them.

torch keeps the placements that an operator gives, with the mesh of the call that it saw first. A trace that finds
them has the mesh of another call among its results, and cannot be divided into forward and backward ("Node tangents_2
was invalid, but is output"): a function that was trained eagerly, and compiled later, ran eagerly for good.
"""

from __future__ import annotations

import sys
from typing import Any

import torch


def forget_meshes() -> None:
    """Makes torch ask anew what operators of distributed tensors give; it asks once for each."""
    if "torch.distributed.tensor" not in sys.modules:
        return
    forget: Any = getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", None)
    if forget is not None:
        forget()
