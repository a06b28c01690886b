"""Imports the families when the first converter is looked up, not when the package is imported."""

from __future__ import annotations

import importlib
from functools import cache

from torch._subclasses.fake_tensor import unset_fake_temporarily

FAMILIES = (
    "elementwise",
    "arithmetic",
    "complex_numbers",
    "bits",
    "comparison",
    "activations",
    "attention",
    "reductions",
    "matmul",
    "experts",
    "linear_algebra",
    "views",
    "strided",
    "joining",
    "indexing",
    "creation",
    "normalization",
    "convolution",
    "pooling",
    "resize",
    "padding",
    "random",
    "distributions",
    "losses",
    "gradients",
    "control_flow",
    "collectives",
    "ordering",
    "counting",
    "distance",
    "fourier",
    "npu_by_card",
    "npu_by_name",
    "npu",
    "npu_gradients",
    "npu_fusion_attention",
    "inplace",
    "printing",
)


@cache
def load_families() -> None:
    """Registers every converter of this package."""
    with unset_fake_temporarily():  # samples hold real tensors, whoever asks first
        for family in FAMILIES:
            importlib.import_module(f"air_geir.converters.{family}")
