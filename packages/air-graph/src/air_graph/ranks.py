"""Which process of a job this is; a torch without `torch.distributed`, and a program without a job, is rank 0 of 1."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

from torch import distributed

__all__ = ["Groups", "group_named", "is_in_a_job", "rank_and_size"]


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


class Groups:
    """The process groups that some names mean now; once they were destroyed and made anew, the same names mean others.

    A name that is no process group's may be a communicator's own.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._found = [(name, _reference(name)) for name in dict.fromkeys(names)]

    def are_others(self) -> bool:
        """Whether a name means another group than it did."""
        return any(_is_another(name, group) for name, group in self._found)

    def gone(self) -> tuple[str, ...]:
        """The names that meant a group and mean none any more."""
        return tuple(name for name, group in self._found if group is not None and group_named(name) is None)


def _reference(name: str) -> Callable[[], distributed.ProcessGroup | None] | None:
    group = group_named(name)
    return None if group is None else weakref.ref(group)


def _is_another(name: str, group: Callable[[], distributed.ProcessGroup | None] | None) -> bool:
    if group is None:
        return group_named(name) is not None
    alive = group()
    return alive is None or distributed.distributed_c10d._world.pg_names.get(alive) != name
