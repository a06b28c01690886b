"""What the settings ask of static kernel compilation, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from air_aclgraph._key import Key
from air_aclgraph.static_kernel._jobs import available_jobs
from air_aclgraph.static_kernel._tree import build_dir_of
from air_aclgraph.static_kernel.errors import SymbolRefused

if TYPE_CHECKING:
    from air_config import Settings


@dataclass(frozen=True)
class Options:
    """Where products go, which operators and shapes take part, and how the compiler is called."""

    build_dir: Path
    cache_dir: Path | None = None
    cached: bool = True
    install_dir: Path | None = None
    blacklist: tuple[str, ...] = ()
    jobs: int = 1
    time_limit_s: float | None = 1800.0
    limit_bytes: int | None = None
    symbol: int = 0
    values: tuple[int, ...] | None = None
    flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings | None) -> Options | None:
        """The options when static kernels are asked for; a build directory that is refused raises."""
        if settings is None or not settings.experimental_config.aclgraph._aclnn_static_shape_kernel:
            return None
        kernels, more = settings.experimental_config.aclgraph, settings.air.static_kernel
        values = kernels._aclnn_static_shape_kernel_sym_value_range
        return cls(
            build_dir=build_dir_of(kernels._aclnn_static_shape_kernel_build_dir),
            cache_dir=_path(more.cache_dir),
            cached=not kernels.disable_static_kernel_compile_cache,
            install_dir=_path(more.install_dir),
            blacklist=tuple(more.blacklist),
            jobs=more.jobs or available_jobs(),
            time_limit_s=more.time_limit_s,
            limit_bytes=more.limit_bytes,
            symbol=kernels._aclnn_static_shape_kernel_sym_index,
            values=None if values is None else tuple(values),
            flags=_flags(kernels),
        )

    def watches(self, key: Key) -> bool:
        """Whether kernels are wanted for a shape key; a graph without symbols is always wanted."""
        symbols = [value for value in key if type(value) is int]
        if self.values is None or not symbols:
            return True
        if self.symbol >= len(symbols):
            raise SymbolRefused(
                f"_aclnn_static_shape_kernel_sym_index is {self.symbol}, and the graph has "
                f"{len(symbols)} symbolic size(s), counted from 0: {symbols}",
                advice="give an index below that number",
                index=self.symbol,
                symbols=len(symbols),
            )
        return symbols[self.symbol] in self.values


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text).absolute()


def _flags(kernels: Any) -> tuple[str, ...]:
    """The words that the compiler gets for super kernels: `name=value` pairs joined by colons."""
    if not kernels._super_kernel_optimize:
        return ()
    both: dict[str, Any] = {
        **(kernels._super_kernel_optimize_options or {}),
        **(kernels._super_kernel_debug_options or {}),
    }
    pairs = ":".join(f"{name}={_text(value)}" for name, value in both.items())
    return ("--enable_super_kernel", *(("--super_kernel_options", pairs) if pairs else ()))


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_text(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
