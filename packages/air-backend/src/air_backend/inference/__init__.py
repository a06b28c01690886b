"""Functions of TorchAir's `torchair.inference`: declared sizes of dynamic dimensions."""

from __future__ import annotations

from air_backend._absent import refused
from air_config import CompilerConfig
from air_geir.gears import set_dim_gears

cache_compile = refused("inference.cache_compile")
readable_cache = refused("inference.readable_cache")

__all__ = ["CompilerConfig", "cache_compile", "readable_cache", "set_dim_gears"]
