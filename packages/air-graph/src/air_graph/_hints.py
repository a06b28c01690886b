"""What a symbolic size was when the graph was traced, and how many bytes a value had then."""

from __future__ import annotations

import math

from torch import SymInt, Tensor


def hint_of(size: int | SymInt) -> int | None:
    """The number itself, or the one that a symbol stood for; None for what is only known when the graph runs."""
    if isinstance(size, int):
        return size
    return int(size.node.hint) if size.node.has_hint() else None


def bytes_of(value: Tensor) -> int:
    """The bytes of its elements; a size that nobody knows counts as 1."""
    sizes = (hint_of(size) for size in value.shape)
    return math.prod(1 if size is None else size for size in sizes) * value.element_size()
