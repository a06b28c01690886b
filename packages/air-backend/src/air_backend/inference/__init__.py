"""Functions of TorchAir's `torchair.inference`: declared sizes of dynamic dimensions, compiled functions on disk."""

from __future__ import annotations

from air_aclgraph.buckets import set_dim_buckets
from air_backend.inference._cache_compile import CachedFunction, cache_compile
from air_backend.inference._store import readable_cache
from air_config import CompilerConfig
from air_geir.gears import set_dim_gears

__all__ = [
    "CachedFunction",
    "CompilerConfig",
    "cache_compile",
    "readable_cache",
    "set_dim_buckets",
    "set_dim_gears",
]
