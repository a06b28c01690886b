"""Which process of a job this is; a torch without `torch.distributed`, and a program without a job, is rank 0 of 1."""

from __future__ import annotations

from torch import distributed

__all__ = ["group_named", "is_in_a_job", "rank_and_size"]


def is_in_a_job() -> bool:
    """Whether `torch.distributed` is there and initialised."""
    return distributed.is_available() and distributed.is_initialized()


def rank_and_size() -> tuple[int, int]:
    """The number of this process in its job, and how many there are."""
    return (distributed.get_rank(), distributed.get_world_size()) if is_in_a_job() else (0, 1)


def group_named(name: str) -> distributed.ProcessGroup | None:
    """The process group of this process that torch gave this name."""
    if not is_in_a_job():
        return None
    groups = distributed.distributed_c10d._world.pg_names
    return next((group for group, given in groups.items() if given == name), None)
