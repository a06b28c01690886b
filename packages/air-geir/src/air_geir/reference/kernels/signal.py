"""Fourier transforms along the last axis, distances, columns to images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain

plain(
    {
        "FFT": torch.fft.fft,
        "IFFT": torch.fft.ifft,
        "Pdist": (F.pdist, "p"),
        "Cdist": (lambda x1, x2, p: torch.linalg.vector_norm(x1 - x2, p, -1), "p"),
    }
)
plain(
    {
        "RFFT": lambda x, fft_length: torch.fft.rfft(x, fft_length[0]),
        "IRFFT": lambda x, fft_length: torch.fft.irfft(x, fft_length[0]),
    },
    host=("fft_length",),
)


@kernel("Col2im", host=("output_size",))
def col2im(op: Operator) -> Run:
    """Adds the columns of sliding windows up to images."""
    size, dilation, padding, stride = (op.ints(n) for n in ("kernel_size", "dilation", "padding", "stride"))

    def run(x: Tensor, output_size: Sequence[int]) -> Tensor:
        """The elements of a window are an axis of their own, after the channels."""
        count, channels, elements, places = x.shape
        x = x.reshape(count, channels * elements, places)
        return F.fold(x, tuple(output_size), size, dilation, padding, stride)  # type: ignore[arg-type]  # lists serve

    return run
