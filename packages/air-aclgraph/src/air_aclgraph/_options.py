"""The settings that matter to one executable, read once out of the settings tree.

The attribute paths are those of `air_config`; a graph compiled without settings gets the defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from air_aclgraph._runtime import ErrorMode

if TYPE_CHECKING:
    from air_config import Settings

Outputs = Literal["kept", "view", "clone", "guarded"]

#: Calls after which an input that stays where it is is bound, by what computes; 0 binds none but large ones (`_large`).
BIND_AFTER: Final = {"aten": 0, "inductor": 3}


@dataclass(frozen=True)
class Options:
    """What `compile_graph` was asked for."""

    outputs: Outputs = "kept"
    kernels: Literal["aten", "inductor"] = "aten"
    warmup: int = 1
    bind_after: int = 0
    bind_large: bool = True
    adopt: bool = False
    clone_input: bool = True
    frozen_parameter: bool = False
    force_recapture: bool = False
    skip_validation: bool = False
    share_pool: bool = True
    limit: int = 64
    limit_bytes: int | None = None
    error_mode: ErrorMode = "thread_local"
    pool: Any = None
    strict_priorities: bool = False
    super_kernel: bool = False
    super_kernel_options: dict[str, Any] | None = None
    super_kernel_debug_options: dict[str, Any] | None = None

    @classmethod
    def of(cls, settings: Settings | None) -> Options:
        """The options a settings tree asks for; the defaults without one."""
        if settings is None:
            return cls()
        debug, air = settings.debug.aclgraph, settings.air
        experimental = settings.experimental_config
        kernels = experimental.aclgraph
        return cls(
            outputs="clone" if debug.enable_output_clone else air.outputs,
            kernels=air.kernels,
            warmup=max(1, air.warmup) if air.kernels == "inductor" else air.warmup,
            bind_after=BIND_AFTER[air.kernels] if air.adaptive_slots is None else air.adaptive_slots,
            bind_large=air.adaptive_slots is None and not debug.unsafe_skip_npugraph_capture_validation,
            adopt=air.adopt_inputs,
            clone_input=debug.clone_input,
            frozen_parameter=experimental.frozen_parameter,
            force_recapture=debug.force_recapture,
            skip_validation=debug.unsafe_skip_npugraph_capture_validation,
            share_pool=not debug.disable_mempool_reuse_in_same_fx,
            limit=debug.static_capture_size_limit,
            limit_bytes=air.cache.limit_bytes,
            error_mode=debug.capture_error_mode,
            pool=settings.aclgraph_config.use_custom_pool,
            strict_priorities=air.stream_priority == "error",
            super_kernel=kernels._super_kernel_optimize,
            super_kernel_options=_plain(kernels._super_kernel_optimize_options),
            super_kernel_debug_options=_plain(kernels._super_kernel_debug_options),
        )

    def as_written(self) -> dict[str, Any]:
        """By the names, and with the values, that a user writes: for reports."""
        return {path: _AS_WRITTEN.get(name, _same)(getattr(self, name)) for name, path in PATHS.items()}


#: The option that each field is read from; `bind_large` follows from others.
PATHS: Final = {
    "outputs": "air.outputs",
    "kernels": "air.kernels",
    "warmup": "air.warmup",
    "bind_after": "air.adaptive_slots",
    "adopt": "air.adopt_inputs",
    "clone_input": "debug.aclgraph.clone_input",
    "frozen_parameter": "experimental_config.frozen_parameter",
    "force_recapture": "debug.aclgraph.force_recapture",
    "skip_validation": "debug.aclgraph.unsafe_skip_npugraph_capture_validation",
    "share_pool": "debug.aclgraph.disable_mempool_reuse_in_same_fx",
    "limit": "debug.aclgraph.static_capture_size_limit",
    "limit_bytes": "air.cache.limit_bytes",
    "error_mode": "debug.aclgraph.capture_error_mode",
    "pool": "aclgraph_config.use_custom_pool",
    "strict_priorities": "air.stream_priority",
    "super_kernel": "experimental_config.aclgraph._super_kernel_optimize",
    "super_kernel_options": "experimental_config.aclgraph._super_kernel_optimize_options",
    "super_kernel_debug_options": "experimental_config.aclgraph._super_kernel_debug_options",
}


def _same(value: Any) -> Any:
    return value


_AS_WRITTEN: Final[dict[str, Callable[[Any], Any]]] = {
    "share_pool": lambda share: not share,
    "strict_priorities": lambda strict: "error" if strict else "if_possible",
}


def _plain(value: Any) -> dict[str, Any] | None:
    return None if value is None else dict(value)
