"""The tree has every documented path with its documented default, and each option is described."""

from __future__ import annotations

from typing import Any

import pytest

from air_config import OPTIONS, CompilerConfig, UnknownOption
from air_config._areas import ALL_MODES
from air_config._tree import Tree, option_at, value_at

ACL = "debug.aclgraph."
EXP = "experimental_config."
STATIC = "experimental_config.aclgraph."

DOCUMENTED: dict[str, Any] = {
    "mode": "max-autotune",
    "post_grad_custom_pre_pass": None,
    "post_grad_custom_post_pass": None,
    "debug.run_eagerly": False,
    "debug.deadlock_check": False,
    "debug.data_dump.type": None,
    "debug.data_dump.path": None,
    "debug.data_dump.filter": None,
    "debug.graph_dump.type": None,
    "debug.graph_dump.path": None,
    "debug.fx_summary.type": None,
    "debug.fx_summary.skip_compile": True,
    ACL + "disable_reinplace_inplaceable_ops_pass": False,
    ACL + "disable_reinplace_input_mutated_ops_pass": False,
    ACL + "disable_mempool_reuse_in_same_fx": False,
    ACL + "enable_output_clone": False,
    ACL + "static_capture_size_limit": 64,
    ACL + "clone_input": True,
    ACL + "remove_cat_ops": True,
    "aclgraph_config.use_custom_pool": None,
    "dump_config.enable_dump": False,
    "dump_config.dump_path": "./",
    "dump_config.data_dump_stage": "optimized",
    "dump_config.dump_mode": "all",
    "dump_config.quant_dumpable": False,
    "dump_config.dump_step": "",
    "dump_config.dump_layer": "",
    "dump_config.dump_data": "tensor",
    "dump_config.dump_config_path": None,
    EXP + "keep_inference_input_mutations": True,
    EXP + "frozen_parameter": False,
    EXP + "remove_noop_ops": True,
    EXP + "pattern_fusion_pass": True,
    EXP + "npu_fx_pass": False,
    EXP + "aot_config_enable_joint_graph": False,
    EXP + "aot_config_output_loss_index": 0,
    EXP + "jit_compile": "auto",
    EXP + "topology_sorting_strategy": "DFS",
    EXP + "cc_parallel_enable": False,
    EXP + "memory_efficiency": False,
    EXP + "static_model_ops_lower_limit": None,
    EXP + "tiling_schedule_optimize": False,
    EXP + "enable_ref_data": False,
    EXP + "enable_view_optimize": True,
    STATIC + "_aclnn_static_shape_kernel": False,
    STATIC + "_aclnn_static_shape_kernel_build_dir": None,
    STATIC + "_aclnn_static_shape_kernel_sym_value_range": None,
    STATIC + "_aclnn_static_shape_kernel_sym_index": 0,
    STATIC + "_super_kernel_optimize": False,
    STATIC + "_super_kernel_optimize_options": None,
    STATIC + "_super_kernel_debug_options": None,
    "ge_config.enable_single_stream": False,
    "ge_config.oo_level": "O3",
    "ge_config.oo_constant_folding": None,
    "ge_config.oo_dead_code_elimination": None,
    "ge_config.export_compile_stat": "2",
    "ge_config.aicore_num": None,
    "ge_config.optimization_switch": None,
    "fusion_config.fusion_switch_file": None,
    "inference_config.dynamic_gears_merge_policy": "zip",
    "aoe_config.aoe_mode": None,
    "aoe_config.work_path": "./",
    "aoe_config.aoe_config_file": None,
    "export.experimental.auto_atc_config_generated": False,
    "export.experimental.enable_record_nn_module_stack": False,
    "export.experimental.enable_lite_export": False,
}


@pytest.mark.parametrize(("path", "default"), DOCUMENTED.items())
def test_a_documented_option_has_its_documented_default(path: str, default: object) -> None:
    value = value_at(CompilerConfig(), path)
    assert type(value) is type(default)
    assert value == default


@pytest.mark.parametrize("path", OPTIONS)
def test_an_option_is_described_and_takes_its_own_default(path: str) -> None:
    row = OPTIONS[path]
    assert row.path == path
    assert row.text.endswith((".", "`)."))
    assert set(row.area.modes) <= set(ALL_MODES)
    assert row.kind.take(path, row.default) == row.default
    assert row.kind.take(path, row.inert) == row.inert


@pytest.mark.parametrize("path", OPTIONS)
def test_what_an_option_needs_exists(path: str) -> None:
    needs = OPTIONS[path].needs
    assert needs == "" or needs in OPTIONS


def test_every_option_has_a_variable_of_its_own() -> None:
    names = [row.environment_name for row in OPTIONS.values()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("AIR_") and name == name.upper() for name in names)
    assert OPTIONS["air.sync"].environment_name == "AIR_SYNC"
    assert OPTIONS["debug.run_eagerly"].environment_name == "AIR_DEBUG_RUN_EAGERLY"
    static = OPTIONS[STATIC + "_aclnn_static_shape_kernel"]
    assert static.environment_name == "AIR_EXPERIMENTAL_CONFIG_ACLGRAPH_ACLNN_STATIC_SHAPE_KERNEL"


def test_no_option_has_the_name_of_a_method() -> None:
    taken = {*Tree._OPTIONS, *Tree._GROUPS}
    for name in taken:
        assert not callable(getattr(object, name, None))
        assert name not in vars(CompilerConfig)


def test_what_only_reduce_overhead_has_is_experimental() -> None:
    for row in OPTIONS.values():
        if "max-autotune" not in row.area.modes:
            assert row.status == "experimental", row.path


def test_an_unknown_path_names_the_nearest() -> None:
    with pytest.raises(UnknownOption, match=r"did you mean 'debug\.aclgraph\.clone_input'"):
        option_at("debug.aclgraph.clone_inputs")
    with pytest.raises(UnknownOption, match=r"did you mean 'debug\.aclgraph\.clone_input'"):
        option_at("clone_input")
