"""Sizes that a caller declared on tensors: found again by the symbols a compiler sees instead.

A compiler gets fake tensors. The mode that made them remembers the real ones, and so which symbol stands for a
dimension on which something was declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

Declared = Mapping[int, tuple[int, ...]]
"""Dim -> sizes."""


def declared_on(tensor: Tensor, attribute: str) -> Declared | None:
    """What was declared on a tensor under this name."""
    found: Declared | None = getattr(tensor, attribute, None)
    return found


def declared_sizes(example_inputs: Sequence[Any], attribute: str) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """Each declared dimension's size, a symbol if the graph has one for it, and the sizes declared."""
    pairs: list[tuple[Tensor, Tensor | None]]
    fakes = [value for value in example_inputs if isinstance(value, FakeTensor)]
    if fakes:
        converter = fakes[0].fake_mode.fake_tensor_converter.meta_converter
        pairs = [
            (t, converter.tensor_memo.get(n)) for t, n in list(converter.describer.lookup_tensor.items())
        ]
    else:
        pairs = [(value, value) for value in example_inputs if isinstance(value, torch.Tensor)]
    for real, seen in pairs:
        if seen is not None:
            for dim, sizes in (declared_on(real, attribute) or {}).items():
                yield seen.shape[dim], sizes
