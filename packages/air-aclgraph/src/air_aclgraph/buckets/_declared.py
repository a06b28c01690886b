"""The sizes that a caller declares on an input tensor, found again among the inputs of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from torch import SymInt, Tensor

from air_fxpasses.declared import Declaration, Declared, declared_on, declared_sizes

BUCKETS: Final = Declaration("set_dim_buckets", "dim_buckets", "buckets", least=2, most=1000)
"""At least 2: torch makes a graph of its own for a size of 1."""


def set_dim_buckets(tensor: Tensor, dim_buckets: Mapping[int, Sequence[int]]) -> None:
    """Declare the sizes that dims of an input tensor are padded to, before the compiled function sees the tensor.

    Every input whose dim has the same symbol in the graph is padded with it.  Inputs with a size in common that the
    graph does not compare (ids and mask of a batch) are each declared, with the same sizes.
    """
    BUCKETS.declare(tensor, dim_buckets, lambda _, sizes: tuple(sorted(set(sizes))))


def get_dim_buckets(tensor: Tensor) -> Declared | None:
    """The buckets declared on a tensor."""
    return declared_on(tensor, BUCKETS.attribute)


DeclaredBuckets = dict[tuple[int, ...], list[Any]]
"""Declared sizes -> the symbols that stand for the dims they were declared on."""


def find_buckets(example_inputs: Sequence[Any]) -> DeclaredBuckets:
    """What was declared on inputs."""
    found: DeclaredBuckets = {}
    for size, sizes in declared_sizes(example_inputs, BUCKETS.attribute):
        if (
            isinstance(size, SymInt)
            and size.node.expr.is_Symbol
            and size.node.expr not in found.get(sizes, [])
        ):
            found.setdefault(sizes, []).append(size.node.expr)
    return found
