"""The gradient of bicubic sampling, which no operator computes: that of torch's own formula for the samples.

Half precision is computed in 32 bits and rounded once; torch's kernel for the CPU rounds after each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._decomp import decomposition_table

_aten = torch.ops.aten


def _grid_sampler(
    grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool,
    output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """grid_sampler_2d_backward: of the image and of the points."""
    formula = decomposition_table.get(_aten.grid_sampler_2d.default)
    if formula is None:
        return NotImplemented

    def sampled(image: Tensor, points: Tensor) -> Tensor:
        drawn: Tensor = formula(image, points, interpolation_mode, padding_mode, align_corners)
        return drawn

    wide = torch.promote_types(input.dtype, torch.float32)
    gradients = torch.func.vjp(sampled, input.to(wide), grid.to(wide))[1]
    of_image, of_points = gradients(grad_output.to(wide))
    return of_image.to(input.dtype), of_points.to(grid.dtype)


SAMPLING_GRADIENTS: Final[Mapping[object, Callable[..., Any]]] = {
    _aten.grid_sampler_2d_backward.default: _grid_sampler
}
