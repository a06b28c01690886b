"""Kernels of the reference engine: what each operator type computes, written from the operators' documentation.

Nothing here knows of torch operators being converted; a converter and the kernel of the type it emits are two
independent statements of the same meaning, which is what makes their tests worth something.
"""

from __future__ import annotations

from air_geir.reference.kernels import (
    activation,
    attention,
    caches,
    collectives,
    control,
    convolution,
    creation,
    elementwise,
    experts,
    fused,
    indexing,
    linear_algebra,
    losses,
    matmul,
    normalization,
    pooling,
    printing,
    quantised,
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
    "attention",
    "caches",
    "collectives",
    "control",
    "convolution",
    "creation",
    "elementwise",
    "experts",
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
    "quantised",
    "reduction",
    "shape",
    "signal",
]
