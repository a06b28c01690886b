"""Flat options: the names of npugraph_ex, dotted paths, and what is said about names that do not exist."""

from __future__ import annotations

from typing import Any

import pytest

from air_config import FLAT_OPTIONS, OPTIONS, CompilerConfig, ConflictingOptions, NotAGroup, UnknownOption
from air_config import WrongType as WrongTypeError

NPUGRAPH_EX_DEFAULTS: dict[str, Any] = {
    "force_eager": False,
    "use_graph_pool": None,
    "reuse_graph_pool_in_same_fx": True,
    "capture_limit": 64,
    "clone_input": True,
    "clone_output": False,
    "static_kernel_compile": False,
    "disable_static_kernel_compile_cache": False,
    "_vllm_aclnn_static_kernel_sym_index": 0,
    "_vllm_aclnn_static_kernel_sym_range": None,
    "super_kernel_optimize": False,
    "super_kernel_optimize_options": None,
    "super_kernel_debug_options": None,
    "frozen_parameter": False,
    "remove_noop_ops": True,
    "remove_cat_ops": True,
    "pattern_fusion_pass": True,
    "inplace_pass": True,
    "input_inplace_pass": True,
    "post_grad_custom_pre_pass": None,
    "post_grad_custom_post_pass": None,
    "dump_tensor_data": False,
    "data_dump_stage": "optimized",
    "data_dump_dir": "./",
    "deadlock_check": False,
    "capture_error_mode": "thread_local",  # npugraph_ex has "global": another thread's copy fails
    "force_recapture": False,
    "unsafe_skip_npugraph_capture_validation": False,
    "record_statistics_debug_info": False,
}


def test_A23_the_table_has_every_name_of_npugraph_ex() -> None:
    assert {row.name for row in FLAT_OPTIONS} == {*NPUGRAPH_EX_DEFAULTS, "mode"}
    assert all(row.path in OPTIONS for row in FLAT_OPTIONS)


@pytest.mark.parametrize(("name", "default"), NPUGRAPH_EX_DEFAULTS.items())
def test_a_name_given_its_default_leaves_the_tree_at_its_defaults(name: str, default: Any) -> None:
    config = CompilerConfig.from_options({name: default})
    assert config == CompilerConfig()
    assert len(config.assigned()) == 1


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("inplace_pass", "debug.aclgraph.disable_reinplace_inplaceable_ops_pass"),
        ("input_inplace_pass", "debug.aclgraph.disable_reinplace_input_mutated_ops_pass"),
        ("reuse_graph_pool_in_same_fx", "debug.aclgraph.disable_mempool_reuse_in_same_fx"),
    ],
)
def test_an_inverse_name_sets_the_opposite(name: str, path: str) -> None:
    assert CompilerConfig.from_options({name: False}).get(path) is True
    assert CompilerConfig.from_options({name: True}).get(path) is False
    with pytest.raises(WrongTypeError, match=name):
        CompilerConfig.from_options({name: 0})


@pytest.mark.parametrize("path", OPTIONS)
def test_every_dotted_path_is_a_flat_name(path: str) -> None:
    config = CompilerConfig.from_options({path: OPTIONS[path].default})
    assert list(config.assigned()) == [path]


def test_the_prefix_air_may_be_left_out() -> None:
    config = CompilerConfig.from_options({"sync": "auto", "cache.limit_bytes": 10, "static_kernel.jobs": 2})
    assert (config.air.sync, config.air.cache.limit_bytes, config.air.static_kernel.jobs) == ("auto", 10, 2)


def test_a_mapping_under_a_group_is_spread_out() -> None:
    config = CompilerConfig.from_options(
        {"debug": {"aclgraph": {"clone_input": False}}, "cache": {"limit_bytes": 1}}
    )
    assert config.debug.aclgraph.clone_input is False
    assert config.air.cache.limit_bytes == 1


def test_a_group_given_a_plain_value_is_an_error() -> None:
    with pytest.raises(NotAGroup, match=r"debug\.aclgraph\.clone_input"):
        CompilerConfig.from_options({"debug.aclgraph": True})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("captur_limit", "capture_limit"),
        ("debug.run_eagrly", "debug.run_eagerly"),
        ("run_eagerly", "debug.run_eagerly"),
        ("aclnn_static_shape_kernel", "experimental_config.aclgraph._aclnn_static_shape_kernel"),
        ("zzzzzzz", None),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(name: str, nearest: str | None) -> None:
    with pytest.raises(UnknownOption) as caught:
        CompilerConfig.from_options({name: True})
    assert caught.value.nearest == nearest


def test_two_names_of_one_option_must_agree() -> None:
    agreed = CompilerConfig.from_options(
        {"inplace_pass": False, "debug.aclgraph": {"disable_reinplace_inplaceable_ops_pass": True}}
    )
    assert agreed.debug.aclgraph.disable_reinplace_inplaceable_ops_pass is True
    with pytest.raises(ConflictingOptions, match="capture_limit"):
        CompilerConfig.from_options({"capture_limit": 1, "debug.aclgraph.static_capture_size_limit": 2})


def test_a_wrong_value_names_the_path_and_the_flat_name() -> None:
    with pytest.raises(WrongTypeError) as caught:
        CompilerConfig.from_options({"capture_limit": True})
    assert "debug.aclgraph.static_capture_size_limit" in str(caught.value)
    assert "options['capture_limit']" in str(caught.value)


@pytest.mark.parametrize("options", [3, "mode", [("mode", "reduce-overhead")], {1: 2}])
def test_what_is_no_dict_of_names_is_an_error(options: Any) -> None:
    with pytest.raises(WrongTypeError):
        CompilerConfig.from_options(options)


def test_W21_nothing_leaks_from_one_configuration_to_the_next() -> None:
    CompilerConfig.from_options({"capture_limit": 3, "inplace_pass": False})
    assert CompilerConfig.from_options({}) == CompilerConfig()


def test_a_configuration_as_options_is_copied() -> None:
    config = CompilerConfig.from_options({"capture_limit": 3})
    twin = CompilerConfig.from_options(config)
    twin.debug.aclgraph.static_capture_size_limit = 4
    assert config.debug.aclgraph.static_capture_size_limit == 3
