"""`config.aclgraph_config`: the memory pool of captured graphs."""

from __future__ import annotations

from air_config import _areas as area
from air_config._kinds import optional, pool_handle
from air_config._option import Group, group, option

__all__ = ["AclGraphPool"]


@group("aclgraph_config")
class AclGraphPool(Group):
    """The memory pool of captured graphs."""

    use_custom_pool: tuple[int, int] | None = option(
        None,
        optional(pool_handle()),
        "Pool of the caller, to share memory between graphs that never run at the same time.",
        area.POOL,
        "experimental",
    )
