"""`CompilerConfig` of npugraph_ex: the options of AIR under flat names, `config.force_eager = True`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import air_config
from air_config import FLAT_OPTIONS, OPTIONS
from air_config.errors import FrozenSettings

__all__ = ["CompilerConfig"]

MODE: Final = "npugraph_ex"
_ROWS: Final = {row.name: row for row in FLAT_OPTIONS if row.name != row.path}


class CompilerConfig(air_config.CompilerConfig):
    """The configuration of npugraph_ex: its flat names, checked on assignment; paths of the tree can be used as well.

    It begins with the mode npugraph_ex, and goes wherever a configuration of AIR goes.
    """

    __slots__ = ()
    _NAMES = tuple(_ROWS)

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_preset", MODE)
        self._assign({"mode": MODE})

    if TYPE_CHECKING:
        force_eager: bool
        use_graph_pool: Any
        reuse_graph_pool_in_same_fx: bool
        capture_limit: int
        clone_input: bool
        clone_output: bool
        static_kernel_compile: bool
        disable_static_kernel_compile_cache: bool
        _vllm_aclnn_static_kernel_sym_index: Any
        _vllm_aclnn_static_kernel_sym_range: Any
        super_kernel_optimize: bool
        super_kernel_optimize_options: Any
        super_kernel_debug_options: Any
        frozen_parameter: bool
        remove_noop_ops: bool
        pattern_fusion_pass: bool
        remove_cat_ops: bool
        inplace_pass: bool
        input_inplace_pass: bool
        dump_tensor_data: bool
        data_dump_stage: Any
        data_dump_dir: Any
        deadlock_check: bool
        capture_error_mode: Any
        force_recapture: bool
        unsafe_skip_npugraph_capture_validation: bool
        record_statistics_debug_info: bool

    if not TYPE_CHECKING:  # as in the tree: a checker that saw these would allow every name

        def __setattr__(self, name: str, value: Any) -> None:
            row = _ROWS.get(name)
            if row is None:
                super().__setattr__(name, value)
                return
            if self._frozen:
                raise FrozenSettings(name)
            taken = OPTIONS[row.path].kind.take(name, value)
            self._assign({row.path: not taken if row.inverted else taken})

        def __getattr__(self, name: str) -> Any:
            row = _ROWS.get(name)
            if row is None:
                return super().__getattr__(name)
            value = self.get(row.path)
            return not value if row.inverted else value

    def __delattr__(self, name: str) -> None:
        row = _ROWS.get(name)
        if row is None:
            super().__delattr__(name)
            return
        *outer, option = row.path.split(".")
        delattr(functools.reduce(getattr, outer, self), option)

    @classmethod
    def from_options(
        cls, options: Mapping[str, Any] | air_config.CompilerConfig | None = None, *, mode: str | None = None
    ) -> air_config.CompilerConfig:
        """As in the tree; a preset that is asked for brings its mode."""
        made = super().from_options(options, mode=mode)
        given = air_config.CompilerConfig.from_options(options).assigned()
        if mode is not None and "mode" not in given:
            del made.mode
        return made

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_ROWS})


def _process_kwargs_options(config: air_config.CompilerConfig, kwargs: Mapping[str, Any]) -> None:
    """Assigns `kwargs["options"]`, flat names and values, to a configuration; vLLM-Ascend calls it."""
    asked = air_config.CompilerConfig.from_options(kwargs.get("options")).asked()
    for path, value in asked.items():
        config.set(path, value)
