"""What the runtime asks of CUDA beside torch: the memory copy of its runtime library, for small inputs."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import torch

from air_aclgraph._copies import ELSEWHERE, Copies, Driver, through


def driver(index: int) -> Driver | None:
    """What a copy by CUDA goes through; None where torch has not loaded its library as one of its own.

    Copies are torch's own where CUDA_LAUNCH_BLOCKING asks that every launch be waited for.
    """
    major = str(torch.version.cuda).partition(".")[0]
    if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
        return None
    try:
        library = ctypes.CDLL(f"libcudart.so.{major}")
        memcpy_async = ctypes.cast(library.cudaMemcpyAsync, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None
    return Driver(memcpy_async or 0, 0, _stream_of(index), frozenset(), index, is_cuda=True)


def copies(index: int) -> Copies | None:
    """Makes the copies into buffers of this device; None where torch's own are the ones to use."""
    found = driver(index)
    return None if found is None else through(found)


def _stream_of(index: int) -> Callable[[int], int]:
    """The number of the current stream; ELSEWHERE where another device is the current one: 0 is a stream of each."""
    raw: Callable[[int], int] = torch._C._cuda_getCurrentRawStream
    if torch.cuda.device_count() == 1:
        return raw
    current: Callable[[], int] = torch._C._cuda_getDevice

    def stream(device: int) -> int:
        return raw(device) if current() == index else ELSEWHERE

    return stream
