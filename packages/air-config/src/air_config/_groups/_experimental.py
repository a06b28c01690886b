"""`config.experimental_config`: passes, parameters, static kernels, and the knobs of Ascend IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from air_config import _areas as area
from air_config._kinds import integer, integers, options_of
from air_config._option import Group, group, option, subgroup
from air_config._path_kinds import directory

__all__ = ["AclGraphExperimental", "Experimental"]

STATIC: Final = "experimental_config.aclgraph._aclnn_static_shape_kernel"
SUPER: Final = "experimental_config.aclgraph._super_kernel_optimize"
SUPER_KERNEL_OPTIONS: Final[Mapping[str, type]] = {
    "preload_code": int,
    "split_mode": int,
    "stream_fusion": int,
    "constant_codegen": int,
    "auto_op_parallel": int,
    "opt_extend": str,
    "dcci_before_kernel_start": list,
    "dcci_after_kernel_end": list,
    "dcci_disable_on_kernel": list,
    "aggressive_opt_strategies": dict,
}
SUPER_KERNEL_DEBUG: Final[Mapping[str, type]] = {
    "debug_sync_all": int,
    "debug_op_exec_trace": int,
    "debug_cross_core_sync_check": int,
    "debug_extend": str,
}


@group("experimental_config.aclgraph", area.STATIC_KERNEL, "experimental", needs=STATIC)
class AclGraphExperimental(Group):
    """Static kernels and super kernels."""

    _aclnn_static_shape_kernel: bool = option(
        False, "Compile the operators of the graph for the shapes at hand, and run those kernels."
    )
    _aclnn_static_shape_kernel_build_dir: str | None = option(
        None,
        "Directory in which the products of the compilation are kept; None is that of the script being run.",
        directory(writable=True, may_be_made=True),
    )
    _aclnn_static_shape_kernel_sym_value_range: Sequence[int] | None = option(
        None,
        "Values of the watched symbol for which kernels are compiled; None is every value.",
        integers(0),
    )
    _aclnn_static_shape_kernel_sym_index: int = option(
        0,
        "Which symbol of the graph is watched.",
        integer(0),
        needs="experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range",
    )
    disable_static_kernel_compile_cache: bool = option(
        False, "Compile again instead of taking kernels from the cache."
    )
    _super_kernel_optimize: bool = option(
        False, "Fuse the kernels of a captured graph into super kernels.", area=area.SUPER_KERNEL, needs=""
    )
    _super_kernel_optimize_options: Mapping[str, Any] | None = option(
        None,
        "Options of that fusion.",
        options_of(SUPER_KERNEL_OPTIONS),
        area=area.SUPER_KERNEL,
        needs=SUPER,
    )
    _super_kernel_debug_options: Mapping[str, Any] | None = option(
        None,
        "Debug options of that fusion.",
        options_of(SUPER_KERNEL_DEBUG),
        area=area.SUPER_KERNEL,
        needs=SUPER,
    )


@group("experimental_config", area.GE)
class Experimental(Group):
    """Passes, parameters, and the knobs of Ascend IR."""

    keep_inference_input_mutations: bool = option(
        True,
        "Keep writes to inputs as `copy_` in the inference graph, instead of returning the new values.",
        area=area.FRONT,
    )
    remove_noop_ops: bool = option(True, "Remove operators that do nothing.", area=area.PASSES, inert=False)
    pattern_fusion_pass: bool = option(
        True, "Replace known patterns by fused operators.", area=area.PASSES, inert=False
    )
    frozen_parameter: bool = option(
        False,
        "Promise that parameters stay where they are in memory: their addresses are never looked at again.",
        area=area.PARAMETERS,
    )
    npu_fx_pass: bool = option(
        False, "Passes for the joint graph of training.", area=area.TRAINING, status="experimental"
    )
    aot_config_enable_joint_graph: bool = option(
        False, "Compile forward and backward as one graph.", area=area.TRAINING, status="experimental"
    )
    aot_config_output_loss_index: int = option(
        0,
        "Which output is the loss.",
        integer(0),
        area=area.TRAINING,
        status="experimental",
        needs="experimental_config.aot_config_enable_joint_graph",
    )
    jit_compile: Literal["auto"] = option(
        "auto", "Static graphs are compiled on the spot, dynamic ones prefer ready binaries."
    )
    topology_sorting_strategy: Literal["BFS", "DFS", "RDFS", "StableRDFS"] = option(
        "DFS", "Order in which the graph engine walks the graph; StableRDFS keeps the order of the program."
    )
    cc_parallel_enable: bool = option(False, "Split communication so that it overlaps with computation.")
    memory_efficiency: bool = option(False, "Let the memory of intermediate results be moved between runs.")
    static_model_ops_lower_limit: int | None = option(
        None,
        "Fewest operators of a static part of a dynamic graph; -1 makes no static parts.",
        integer(2, also=(-1,)),
    )
    tiling_schedule_optimize: bool = option(False, "Compute the tiling of fused attention on the device.")
    enable_ref_data: bool = option(
        False, "Represent written inputs as references, so that they are written in place.", area=area.IR
    )
    enable_view_optimize: bool = option(True, "Fold chains of views while converting.", area=area.IR)
    aclgraph: AclGraphExperimental = subgroup(AclGraphExperimental)
