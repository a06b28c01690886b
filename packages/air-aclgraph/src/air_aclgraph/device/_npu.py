"""What only Ascend NPUs have: private formats, super kernels, limits of streams and events.

`torch_npu` is imported when an npu runtime is made, never before: this package works without it.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import Any, Final

from torch import Tensor

from air_aclgraph._runtime import Request

#: Streams and events one A2 or A3 device has; the driver has no call that says so.
STREAMS: Final = 1984
EVENTS: Final = 65535

#: Formats in which memory is what the strides say: undefined, NCHW, NHWC, ND, NCDHW.
_PLAIN: Final = frozenset((-1, 0, 1, 2, 30))


def torch_npu() -> ModuleType:
    """The torch_npu package."""
    return importlib.import_module("torch_npu")


def formatted_like(tensor: Tensor) -> Tensor | None:
    """Memory in the private format of `tensor` (NZ weights and the like); None for plain formats."""
    package = torch_npu()
    number = int(package.get_npu_format(tensor))
    if number in _PLAIN:
        return None
    made: Tensor = package.empty_with_format(
        tensor.shape, dtype=tensor.dtype, device=tensor.device, acl_format=number
    )
    return made


def determinism() -> int:
    """The level of determinism of the process."""
    return int(torch_npu().npu._get_deterministic_level())


def set_determinism(level: int) -> int:
    """Sets the level of determinism of the process; gives the one from before."""
    before = determinism()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch_npu warns of every change
        torch_npu().npu.set_deterministic_level(level)
    return before


def super_kernel(graph: Any, request: Request) -> None:
    """Fuses the captured kernels; the options are checked by torch_npu."""
    graph.super_kernel_optimize(request.super_kernel_options, request.super_kernel_debug_options)
