"""Gives captured collectives their place among those that a program starts itself.

A communicator serves one collective at a time. In eager they all go through one stream of the communicator, in the
order in which they were started, from whatever stream. A replay is outside that order: its collectives run where
the graph does, so one of them may meet another that is still under way (`async_op=True`, a prefetch on another
stream), and ranks that come to the two in different orders wait for each other for ever, or exchange the wrong
data. So a replay waits for what is under way on its communicators, and what is started on them later waits for the
replay.

NCCL orders the launches of a communicator by itself, also those of CUDA graphs; gloo has no streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import torch

from air_graph import ranks, with_index

Result = TypeVar("Result")


def in_turn(run: Callable[..., Result], groups: Iterable[str], device: torch.device) -> Callable[..., Result]:
    """`run`, in the order of the communicators of these process groups; `run` itself where nothing has to be ordered.

    To be asked when the groups have been used, and the device is the current one.
    """
    streams = _streams(groups, device)
    if not streams:
        return run
    before = [(torch.Event(device), stream) for stream in streams]
    after = torch.Event(device)

    def ordered(*args: Any) -> Result:
        for event, stream in before:
            event.record(stream)
            event.wait()
        result = run(*args)
        after.record()
        for stream in streams:
            after.wait(stream)
        return result

    return ordered


def _streams(groups: Iterable[str], device: torch.device) -> list[torch.Stream]:
    """The streams of their communicators: HCCL's have one. A name may be a communicator's own."""
    if device.type != "npu":
        return []
    where = with_index(device)
    kind = torch.Stream(device=device).device_type
    found = []
    for name in dict.fromkeys(groups):
        stream_id = getattr(_backend(name, device), "get_coll_stream_id", None)
        if stream_id is not None:
            number = stream_id(where)
            found.append(torch.Stream(stream_id=number, device_index=where.index, device_type=kind))
    return found


def _backend(name: str, device: torch.device) -> Any:
    """What carries the collectives of a group on a device; None where there is none, which the first of them says."""
    group = ranks.group_named(name)
    with suppress(RuntimeError):
        return None if group is None else group._get_backend(torch.device(device.type))
    return None
