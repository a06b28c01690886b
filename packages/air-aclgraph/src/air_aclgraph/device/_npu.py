"""What only Ascend NPUs have: private formats, super kernels, limits of streams and events.

`torch_npu` is imported when an npu runtime is made, never before: this package works without it.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from torch import Tensor

from air_aclgraph import _copies
from air_aclgraph._copies import Copies, Driver
from air_aclgraph._runtime import Request
from air_graph import PLAIN_NPU_FORMATS

#: Streams and events one A2 or A3 device has; the driver has no call that says so.
STREAMS: Final = 1984
EVENTS: Final = 65535


def torch_npu() -> ModuleType:
    """The torch_npu package."""
    return importlib.import_module("torch_npu")


#: `int64_t at_npu::native::get_npu_format(const at::Tensor&)` of torch_npu's header NPUFormat.h.
_FORMAT_OF: Final = "_ZN6at_npu6native14get_npu_formatERKN2at6TensorE"


def format_of(tensor: Tensor) -> int:
    """The number of the memory format of a tensor."""
    return int(torch_npu().get_npu_format(tensor))


def is_plain(tensor: Tensor) -> bool:
    """Whether the memory of a tensor is what its strides say."""
    return tensor.device.type == "npu" and format_of(tensor) in PLAIN_NPU_FORMATS


def formatted_like(tensor: Tensor) -> Tensor | None:
    """Memory in the private format of `tensor` (NZ weights and the like); None for plain formats."""
    number = format_of(tensor)
    if number in PLAIN_NPU_FORMATS:
        return None
    made: Tensor = torch_npu().empty_with_format(
        tensor.shape, dtype=tensor.dtype, device=tensor.device, acl_format=number
    )
    return made


def flush(stream: Any) -> None:
    """Returns when the task queue has handed over what was launched so far: the number of a stream is given after that.

    torch_npu 2.13 asks the driver whether the current stream is being captured. A stream joins a capture with its first
    wait, and while that wait lies in the queue the answer is no: memory freed there gets an event, which is recorded in
    the capture and then queried, and that ends capture and process.
    """
    stream.npu_stream  # noqa: B018


def driver(index: int) -> Driver | None:
    """What a copy by the driver goes through; None where something is missing or torch_npu watches every launch."""
    stream = getattr(torch_npu()._C, "_npu_getCurrentRawStream", None)
    watched = launches_block() or "TORCH_NPU_SANITIZER" in os.environ
    if stream is None or watched:
        return None
    try:
        memcpy_async = _address(ctypes.CDLL("libascendcl.so"), "aclrtMemcpyAsync")
        package = Path(str(torch_npu().__file__)).parent
        asks = _address(ctypes.CDLL(str(package / "lib" / "libtorch_npu.so")), _FORMAT_OF)
    except (OSError, AttributeError):
        return None
    return Driver(memcpy_async, asks, stream, PLAIN_NPU_FORMATS, index)


def _address(library: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None, "a symbol that was found has an address"
    return address


def launches_block() -> bool:
    """Whether torch_npu waits for each launch, and for each replay."""
    return os.environ.get("ASCEND_LAUNCH_BLOCKING", "0") not in ("", "0")


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


def copies(index: int) -> Copies:
    """Makes the copies into buffers of this device."""
    found = driver(index)
    fast = None if found is None else _copies.through(found)
    return _where_plain(fast or _copies.formats_asked(is_plain), _copies.one_by_one)


def copies_back(index: int) -> Copies:
    """Makes the copies out of buffers of this device into the tensors of a call."""
    found, careful = driver(index), _copies.back_one_by_one
    fast = None if found is None else _copies.back_through(found)
    return _where_plain(fast or _copies.formats_asked(is_plain, careful, _copies.back), careful)


def _where_plain(made: Copies, careful: Copies) -> Copies:
    """Copies where the memory of all buffers is what their strides say, and else the careful ones."""
    return lambda buffers: (made if all(map(is_plain, buffers)) else careful)(buffers)
