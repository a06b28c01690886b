"""What the rules of static kernels want to know about this process: an active profiler, the sizes of the nodes."""

from __future__ import annotations

from typing import Final

import torch

import air_config
from air_aclgraph.static_kernel import first_step_skipped
from air_config import variables

_FIRST: Final = "air/static_kernels/local_world_size"
_OTHER: Final = "air/static_kernels/another_local_world_size"


def profiler() -> air_config.ProfilerState | None:
    """The profiler that is on and records operator arguments."""
    skipped = first_step_skipped()
    return None if skipped is None else air_config.ProfilerState(record_op_args=True, skip_first=skipped)


def local_world_sizes() -> tuple[int, ...]:
    """LOCAL_WORLD_SIZE of the rank that came here first, and one that differs, or else that of this rank.

    The ranks meet in the store of the default process group and wait for nobody: a rank whose node differs from
    the first one's knows it at once, and leaves word for those that come after it.
    """
    mine = variables.number("LOCAL_WORLD_SIZE", 0, low=1)
    distributed = torch.distributed
    if not mine or not distributed.is_available() or not distributed.is_initialized():
        return ()
    store = distributed.distributed_c10d._get_default_store()
    first = int(store.compare_set(_FIRST, "", str(mine)))
    if first != mine:
        store.set(_OTHER, str(mine))
    other = int(store.get(_OTHER)) if store.check([_OTHER]) else first
    return (first, other)
