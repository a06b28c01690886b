"""Where a tensor is, and how it lies there: two tensors of one layout and size are the same to an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

#: Classes whose values are one plain tensor each.
_PLAIN: Final = (Tensor, nn.Parameter)


class Layout(NamedTuple):
    """Where a tensor is, and how it lies there; the strides may be those of each call."""

    device: torch.device
    strides: tuple[int | None, ...]

    def holds_for(self, value: Any) -> bool:
        """Whether a tensor of the same sizes lies so."""
        return (
            value.device == self.device
            and type(value) in _PLAIN
            and value.layout is torch.strided
            and _same_strides(value, self.strides)
        )


def _same_strides(value: Tensor, strides: Sequence[int | None]) -> bool:
    """Those of a dim of one element, and of a tensor without elements, mean nothing."""
    found = value.stride()
    if found == strides or not value.numel():
        return True
    return all(
        size < 2 or known in (None, stride)
        for size, stride, known in zip(value.shape, found, strides, strict=True)
    )
