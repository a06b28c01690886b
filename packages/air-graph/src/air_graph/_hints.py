"""What a symbolic size was when the graph was traced, and how many bytes a value had then."""

from __future__ import annotations

import math
from typing import Any

from torch import SymInt, Tensor


def hint_of(size: int | SymInt) -> int | None:
    """The number itself, or the one that a symbol stood for; None for what is only known when the graph runs."""
    if isinstance(size, int):
        return size
    return int(size.node.hint) if size.node.has_hint() else None


def elements_of(value: Tensor) -> int:
    """How many elements it has; a size that is not known counts as 1."""
    sizes = (hint_of(size) for size in value.shape)
    return math.prod(1 if size is None else size for size in sizes)


def bytes_of(value: Any) -> int:
    """The bytes of the elements of a tensor, or of the tensors in a list; 0 for anything else."""
    if isinstance(value, Tensor):
        return elements_of(value) * value.element_size()
    return sum(map(bytes_of, value)) if isinstance(value, (list, tuple)) else 0
