"""Inputs in different memory at each call, such as a new KV cache for each request.

    call 1: cache A, captured where it is      call 2: cache B, and nobody has A any more
    call 2 copies B into the memory of A, replays, and copies it back into B: no capture

A capture keeps the memory of what it writes. When its caller has let go of it, no tensor but the capture's own is over
that memory, and it serves as the buffer that the input is carried through. Where somebody still has it (two caches in
turn, a view of the old one), or may have it (an array, a file: memory that torch did not make), the key is captured
again. So it is when a cache stays for so many calls that the copies have taken as long as a capture takes.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any, Final

from torch import Tensor, nn

from air_aclgraph._captured import Captured
from air_aclgraph._kept import Loan
from air_aclgraph._memory import has_gaps, is_of_others, overlaps_itself, tensors_of
from air_aclgraph._runtime import Recording, Runtime
from air_aclgraph._slots import Kind
from air_graph import storage_of

_CARRIED: Final = {Kind.MUTATED: Kind.CARRIED, Kind.STATIC: Kind.COPIED}

#: What a copy inside of one memory moves, as an order of magnitude.
_ON_DEVICES: Final = 500e9
_BYTES_PER_SECOND: Final = {"cpu": 5e9}
#: What one tensor more in a copy takes, whatever its size: caches of models are many small ones.
_SECONDS_PER_TENSOR: Final = 1e-6
_LEAST_CALLS: Final = 16

_recordings: Final[weakref.WeakValueDictionary[int, Recording]] = weakref.WeakValueDictionary()
"""Every recording there is, of all graphs: two of them may write one cache."""


def remember(recording: Recording) -> None:
    """Counts what this recording holds among our own."""
    _recordings[id(recording)] = recording


def carried_from_now_on(
    captured: Captured, moved: Sequence[int], args: Sequence[Any], *, collect: bool
) -> dict[int, Kind]:
    """The new kind of each input that moved, where all of them can be carried; empty where one cannot."""
    if not all(can_be_carried(captured, index, args[index]) for index in moved):
        return {}
    if not are_free([captured.inputs[index] for index in moved], collect=collect):
        return {}
    return {index: _CARRIED[captured.kinds[index]] for index in moved}


def claims_of_recordings(tensor: Tensor) -> int:
    """How many owners the storage of a tensor has in recordings, of all graphs."""
    storage, found = storage_of(tensor), dict[int, Tensor]()
    for recording in list(_recordings.values()):
        found |= recording.holders.of(storage)
    return len(found)


def storages_lent() -> frozenset[int]:
    """The storages that forward halves lend their backward halves."""
    return frozenset().union(*(each.lent for each in list(_recordings.values())))


def is_made_by_recordings(address: int) -> bool:
    """Whether this is memory that a recording gives out, lent or to be written by the next replay of any graph."""
    given = (out.untyped_storage() for each in list(_recordings.values()) for out in tensors_of(each.outputs))
    return any(storage.data_ptr() <= address < storage.data_ptr() + storage.nbytes() for storage in given)


def calls_worth_a_capture(seconds: float, copied: Sequence[Tensor], runtime: Runtime) -> int:
    """After how many calls, each of which copies these tensors in and back, the copies have cost a capture."""
    rate = _BYTES_PER_SECOND.get(runtime.device.type, _ON_DEVICES)
    once = sum(tensor.nbytes for tensor in copied) / rate + len(copied) * _SECONDS_PER_TENSOR
    return max(_LEAST_CALLS, int(seconds / (2 * max(once, _SECONDS_PER_TENSOR))))


def are_free(memory: Sequence[Tensor], *, collect: bool) -> bool:
    """Whether no tensor but those of recordings is over this memory.

    With `collect` what garbage holds is given back first: compiling leaves cycles that have the inputs of its call.
    """
    if _are_free(memory):
        return True
    return collect and gc.collect() >= 0 and _are_free(memory)


def _are_free(memory: Sequence[Tensor]) -> bool:
    return not any(Loan.of(each, claims_of_recordings(each)).is_held() for each in memory)


def can_be_carried(captured: Captured, index: int, given: Tensor) -> bool:
    """Whether one fills the memory of the other, alone; a parameter is no memory for a request, and stays as it is."""
    buffer = captured.inputs[index]
    if captured.kinds[index] not in _CARRIED or index in captured.wholes or not captured.has_memory_of(index):
        return False
    if (
        isinstance(given, nn.Parameter)
        or buffer.is_inference()
        or is_of_others(buffer)
        or has_gaps(buffer)
        or overlaps_itself(buffer)
    ):
        return False
    return index in captured.alone and (given.shape, given.stride(), given.dtype) == (
        buffer.shape,
        buffer.stride(),
        buffer.dtype,
    )
