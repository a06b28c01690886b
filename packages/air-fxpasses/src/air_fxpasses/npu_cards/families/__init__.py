"""One module per family of operators; each has its rows in `OPS`."""

from __future__ import annotations

from typing import Final

from air_fxpasses.npu_cards.families import (
    activations,
    casts,
    experts,
    gradients,
    grouped_matmul,
    inference_attention,
    kv_cache,
    matmuls,
    mla_prolog,
    norms,
    paged_cache,
    quantisation,
    rotary,
    sampling,
    scatter,
    training_attention,
)

FAMILIES: Final = (
    norms.OPS,
    rotary.OPS,
    activations.OPS,
    quantisation.OPS,
    matmuls.OPS,
    grouped_matmul.OPS,
    kv_cache.OPS,
    paged_cache.OPS,
    mla_prolog.OPS,
    inference_attention.OPS,
    training_attention.OPS,
    experts.OPS,
    scatter.OPS,
    gradients.OPS,
    casts.OPS,
    sampling.OPS,
)
