"""`config.aclgraph_config`: the memory pool of captured graphs."""

from __future__ import annotations

from air_config import _areas as area
from air_config._kinds import pool_handle
from air_config._option import Group, group, option

__all__ = ["AclGraphPool"]


@group("aclgraph_config", area.POOL, "experimental")
class AclGraphPool(Group):
    """The memory pool of captured graphs."""

    use_custom_pool: tuple[int, int] | None = option(
        None,
        "Pool of the caller, to share memory between graphs that never run at the same time.",
        pool_handle(),
    )
