"""Which process of a job this is; a torch without `torch.distributed`, and a program without a job, is rank 0 of 1."""

from __future__ import annotations

from torch import distributed

__all__ = ["is_in_a_job", "rank_and_size"]


def is_in_a_job() -> bool:
    """Whether `torch.distributed` is there and initialised."""
    return distributed.is_available() and distributed.is_initialized()


def rank_and_size() -> tuple[int, int]:
    """The number of this process in its job, and how many there are."""
    return (distributed.get_rank(), distributed.get_world_size()) if is_in_a_job() else (0, 1)
