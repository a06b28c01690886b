"""The family tables: operator prototypes, one row per operator type."""

from __future__ import annotations

from air_geir.prototypes.families import (
    activation,
    attention,
    collectives,
    comparison,
    control,
    convolution,
    creation,
    elementwise,
    foreach,
    gradients,
    indexing,
    linalg,
    losses,
    matmul,
    moe,
    normalization,
    optimizers,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    resize,
    shapes,
)

FAMILIES = {
    "activation": activation.ROWS,
    "attention": attention.ROWS,
    "collectives": collectives.ROWS,
    "comparison": comparison.ROWS,
    "control": control.ROWS,
    "convolution": convolution.ROWS,
    "creation": creation.ROWS,
    "elementwise": elementwise.ROWS,
    "foreach": foreach.ROWS,
    "gradients": gradients.ROWS,
    "indexing": indexing.ROWS,
    "linalg": linalg.ROWS,
    "losses": losses.ROWS,
    "matmul": matmul.ROWS,
    "moe": moe.ROWS,
    "normalization": normalization.ROWS,
    "optimizers": optimizers.ROWS,
    "pooling": pooling.ROWS,
    "quantization": quantization.ROWS,
    "random": random.ROWS,
    "recurrent": recurrent.ROWS,
    "reduction": reduction.ROWS,
    "resize": resize.ROWS,
    "shapes": shapes.ROWS,
}
"""Family name -> its table. A row goes on in the following lines that are indented."""

__all__ = ["FAMILIES"]
