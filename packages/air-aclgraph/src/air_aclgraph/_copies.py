"""Copies the inputs of a call into the buffers that a captured graph reads.

`Tensor.copy_` finds out in every call what it copies, prepares an operator and launches it.  For a small tensor
like its buffer the driver's memory copy does the same, and is launched in a third of the time when the processor's
caches are cold, as Dynamo's guards leave them.  What decides is asked in every call and in C++: type, dtype,
device, sizes and strides by torch's own test of guards, the memory format by torch_npu, the alignment by the
address.  A tensor that is not like its buffer, or a driver that refuses, gets `Tensor.copy_`.

    one tensor of up to 1 MiB            the driver's copy
    up to 32 of 4 MiB together           the driver's copies, or one `_foreach_copy_` where that was found to be faster
    more, or larger                      one `_foreach_copy_` per dtype, which takes plain memory formats only
    anything else                        `copy_`, one by one

What a graph wrote into its buffers goes back to the tensors of the call the same way, all in one call per dtype: torch
launches one kernel only for tensors of one dtype.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards

from air_aclgraph import native
from air_aclgraph._faster import Choice, Measured
from air_aclgraph._memory import extent

#: Copies its arguments into the buffers it was made for.
Copy = Callable[..., object]

#: How many tensors, of how many bytes each and together, the driver may copy one by one.
DIRECT_TENSORS: Final = 32
DIRECT_BYTES: Final = 1 << 20
DIRECT_TOTAL: Final = 1 << 22

#: What the driver's copy asks of both addresses.
ALIGNMENT: Final = 64

#: In place of a stream: the driver must not copy now.
ELSEWHERE: Final = -1


Copies = Callable[[Sequence[Tensor]], Copy]
"""Makes the copy into some buffers: a function of as many tensors."""


@dataclass(frozen=True)
class Driver:
    """The entries of a driver and of its torch package that a copy goes through.

    `memcpy_async` and `format_of` are addresses of C functions: `aclrtMemcpyAsync` or `cudaMemcpyAsync`, and from
    `const at::Tensor&` to the number of its memory format; 0 where memory has no formats.  `stream` launches what is
    queued on the current stream of a device and gives the stream's number, or ELSEWHERE.  `plain` are the formats
    whose memory is what the strides say.
    """

    memcpy_async: int
    format_of: int
    stream: Callable[[int], int]
    plain: frozenset[int]
    device: int
    is_cuda: bool = False
    """Whether the copy is CUDA's, which is not told how much room there is, and whose default stream is 0."""


def one_by_one(buffers: Sequence[Tensor]) -> Copy:
    """`copy_` for each tensor: right for everything."""
    if len(buffers) == 1:
        only: Copy = buffers[0].copy_
        return lambda source: only(source, True)
    into = [buffer.copy_ for buffer in buffers]

    def copy(*sources: Tensor) -> None:
        for one, source in zip(into, sources, strict=True):
            one(source, True)

    return copy


def batched(buffers: Sequence[Tensor]) -> Copy:
    """One call for all tensors of a dtype; their memory must be what their strides say."""
    parts = [([buffers[i] for i in places], places) for places in _at_once(buffers)]

    def copy(*sources: Tensor) -> None:
        for targets, places in parts:
            _copy_together(targets, [sources[i] for i in places])

    return copy


def back(buffers: Sequence[Tensor]) -> Copy:
    """Copies buffers into the tensors of a call, which are plain as well: one call for all tensors of a dtype."""
    parts = [([buffers[i] for i in places], places) for places in _at_once(buffers)]

    def copy(*targets: Tensor) -> None:
        for sources, places in parts:
            _copy_together([targets[i] for i in places], sources)

    return copy


def _copy_together(targets: list[Tensor], sources: list[Tensor]) -> None:
    if len(targets) == 1:
        targets[0].copy_(sources[0], True)
    else:
        torch._foreach_copy_(targets, sources, True)


def _at_once(buffers: Sequence[Tensor]) -> list[list[int]]:
    """What one call copies: a conjugated or negated view is alone, since `_foreach_copy_` takes none."""
    groups: dict[tuple[torch.dtype, int | None], list[int]] = {}
    for place, buffer in enumerate(buffers):
        is_turned = buffer.is_conj() or buffer.is_neg()
        groups.setdefault((buffer.dtype, place if is_turned else None), []).append(place)
    return list(groups.values())


def back_one_by_one(buffers: Sequence[Tensor]) -> Copy:
    """The same with `copy_` for each tensor: right for everything."""
    sources = list(buffers)

    def copy(*targets: Tensor) -> None:
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source, True)

    return copy


def formats_asked(
    is_plain: Callable[[Tensor], bool], careful: Copies = one_by_one, together: Copies = batched
) -> Copies:
    """Without the builtin: one call for several tensors after each was asked for its memory format."""

    def copies(buffers: Sequence[Tensor]) -> Copy:
        singly = careful(buffers)
        if len(buffers) == 1:
            return singly
        at_once = together(buffers)

        def copy(*given: Tensor) -> None:
            (at_once if all(map(is_plain, given)) else singly)(*given)

        return copy

    return copies


_measured: Final = Measured()


def through(driver: Driver, choice: Choice = _measured) -> Copies | None:
    """Copies by a driver; None where the builtin for it cannot be had.

    `choice` says whether several tensors are copied one by one, not in one call.
    """
    made = _builtin(driver)
    if made is None:
        return None

    def singly(buffers: Sequence[Tensor]) -> Copy:
        return made(buffers, None, one_by_one(buffers))

    def together(buffers: Sequence[Tensor]) -> Copy:
        return made(buffers, batched(buffers), one_by_one(buffers))

    def copies(buffers: Sequence[Tensor]) -> Copy:
        direct = _may_be_direct(buffers)
        if len(buffers) == 1:
            return singly(buffers) if direct else one_by_one(buffers)
        return singly(buffers) if direct and choice(buffers, singly, together) else together(buffers)

    return copies


def back_through(driver: Driver) -> Copies | None:
    """Copies of buffers into the tensors of a call, whose formats are asked in C++; None without the builtin."""
    made = _builtin(driver)
    if made is None:
        return None

    def copies(buffers: Sequence[Tensor]) -> Copy:
        careful = back_one_by_one(buffers)
        return careful if len(buffers) == 1 else made(buffers, back(buffers), careful)

    return copies


def _builtin(driver: Driver) -> Callable[[Sequence[Tensor], Copy | None, Copy], Copy] | None:
    """Makes a function of tensors like some buffers: `together`, or the driver's copy where that is None.

    It calls the careful one for other tensors.
    """
    entry = native.data_ptr_entry()
    make = native.builtin(
        "air_copies", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong,
        ctypes.POINTER(ctypes.c_void_p), ctypes.c_long, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_ulong),
        ctypes.c_int,
    )  # fmt: skip
    if make is None or entry is None:
        return None
    plain = _bits(driver.plain)

    def made(buffers: Sequence[Tensor], together: Copy | None, careful: Copy) -> Copy:
        check = TensorGuards(*buffers, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        held = (check, together, careful, driver.stream, driver.device, "_cdata")
        count = len(buffers)
        copy: Copy = make(
            entry, driver.format_of, driver.memcpy_async, plain, _objects(held),
            count, (ctypes.c_void_p * count)(*[buffer.data_ptr() for buffer in buffers]),
            (ctypes.c_ulong * count)(*[buffer.nbytes for buffer in buffers]), driver.is_cuda,
        )  # fmt: skip
        return copy

    return made


def _bits(formats: Iterable[int]) -> int:
    """One bit per format; the undefined one, -1, is the lowest."""
    return sum(1 << (number + 1) for number in formats)


def _objects(held: Sequence[Any]) -> Any:
    """The objects as C sees them, `None` as a null pointer."""
    return (ctypes.c_void_p * len(held))(*[None if thing is None else id(thing) for thing in held])


def _may_be_direct(buffers: Sequence[Tensor]) -> bool:
    """Whether the driver can copy these one by one: few, small, each an unbroken and aligned piece of memory."""
    few = len(buffers) <= DIRECT_TENSORS and sum(buffer.nbytes for buffer in buffers) <= DIRECT_TOTAL
    return few and all(
        0 < buffer.nbytes <= DIRECT_BYTES
        and extent(buffer) == buffer.numel()
        and buffer.data_ptr() % ALIGNMENT == 0
        for buffer in buffers
    )
