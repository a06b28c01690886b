"""Fourier transforms along the last axis, distances, columns to images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain

plain({"FFT": torch.fft.fft, "IFFT": torch.fft.ifft})


@kernel("RFFT", host=("fft_length",))
def rfft(op: Operator) -> Run:
    """The first half of the transform of real numbers."""
    return lambda input, fft_length: torch.fft.rfft(input, fft_length[0])


@kernel("IRFFT", host=("fft_length",))
def irfft(op: Operator) -> Run:
    """Real numbers from the first half of their transform."""
    return lambda x, fft_length: torch.fft.irfft(x, fft_length[0])


@kernel("Pdist")
def pdist(op: Operator) -> Run:
    """Distances between every two rows."""
    p = op.attr("p")
    return lambda x: F.pdist(x, p)


@kernel("Cdist")
def cdist(op: Operator) -> Run:
    """Sum of p-th powers between paired rows, its p-th root."""
    p = op.attr("p")
    return lambda x1, x2: torch.linalg.vector_norm(x1 - x2, p, -1)


@kernel("Col2im", host=("output_size",))
def col2im(op: Operator) -> Run:
    """Adds the columns of sliding windows up to images."""
    size, dilation, padding, stride = (op.ints(n) for n in ("kernel_size", "dilation", "padding", "stride"))

    def run(x: Tensor, output_size: Sequence[int]) -> Tensor:
        return F.fold(x, tuple(output_size), size, dilation, padding, stride)  # type: ignore[arg-type]  # lists serve

    return run
