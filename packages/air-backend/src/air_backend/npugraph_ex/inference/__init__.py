"""`cache_compile` and `readable_cache` of npugraph_ex: compiled functions on disk, with its flat options."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import air_config
from air_backend.inference import CachedFunction, readable_cache
from air_backend.inference import cache_compile as _cache_compile
from air_backend.npugraph_ex.configs.compiler_config import CompilerConfig

__all__ = ["cache_compile", "readable_cache"]


def cache_compile(
    func: Callable[..., Any],
    *,
    config: air_config.CompilerConfig | None = None,
    dynamic: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> CachedFunction:
    """`air_backend.inference.cache_compile` in the mode npugraph_ex; `options` are flat and go before `config`."""
    return _cache_compile(
        func,
        config=config if config is not None else CompilerConfig(),
        dynamic=dynamic,
        cache_dir=cache_dir,
        global_rank=global_rank,
        tp_rank=tp_rank,
        pp_rank=pp_rank,
        options=options,
        **kwargs,
    )
