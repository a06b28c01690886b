"""The sizes of the nodes that the ranks of a job run on: static kernels must be the same on all of them."""

from __future__ import annotations

from typing import Final

import torch

from air_config import variables

_FIRST: Final = "air/static_kernels/local_world_size"
_OTHER: Final = "air/static_kernels/another_local_world_size"


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
