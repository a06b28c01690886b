"""Kernels of the reference engine: what each operator type computes, written from the operators' documentation.

Nothing here knows of torch operators being converted; a converter and the kernel of the type it emits are two
independent statements of the same meaning, which is what makes their tests worth something. Fused operators of
torch_npu are computed by the references of their cards, and air-sim, in C++, is the second opinion.
"""

from __future__ import annotations

from air_geir.reference.kernels import (
    activation,
    collectives,
    control,
    convolution,
    creation,
    elementwise,
    fused,
    indexing,
    linear_algebra,
    losses,
    matmul,
    normalization,
    pooling,
    printing,
    reduction,
    shape,
    signal,
)
from air_geir.reference.kernels._registry import (
    Kernel,
    Operator,
    kernel,
    kernel_for,
    kernel_types,
    plain,
)

__all__ = [
    "Kernel",
    "Operator",
    "activation",
    "collectives",
    "control",
    "convolution",
    "creation",
    "elementwise",
    "fused",
    "indexing",
    "kernel",
    "kernel_for",
    "kernel_types",
    "linear_algebra",
    "losses",
    "matmul",
    "normalization",
    "plain",
    "pooling",
    "printing",
    "reduction",
    "shape",
    "signal",
]
