"""Options whose values have a form of their own: what is taken and what is refused, by example."""

from __future__ import annotations

from typing import Any

import pytest

from air_config import CompilerConfig, WrongType, WrongValue

SUPER = "experimental_config.aclgraph._super_kernel_optimize_options"
SUPER_DEBUG = "experimental_config.aclgraph._super_kernel_debug_options"
RANGE = "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range"

FORMS: list[tuple[str, list[Any], list[Any]]] = [
    (
        "dump_config.dump_step",
        ["", "0", "0|3-5", "1-2|7|9-12"],
        ["a", "1-", "|1", "1||2", "1-2-3", "1|", " 1"],
    ),
    ("dump_config.dump_layer", ["", "Mul_1 Add1", "a/b.c\\d"], ["Mul;Add", "Mul\n", "\u7b97\u5b50"]),
    ("dump_config.dump_mode", ["input", "output", "all"], ["none", "ALL", ""]),
    ("ge_config.aicore_num", ["24|48", "1|0", None], ["24", "|", "24|", "a|b", "24|48|2", "-1|2"]),
    (
        "ge_config.optimization_switch",
        ["A:on", "A:on;B:off", "A:on;", None],
        ["A", "A:yes", "A:on B:off", ":on", ""],
    ),
    ("ge_config.export_compile_stat", ["0", "1", "2"], ["3", ""]),
    ("ge_config.oo_level", ["O1", "O3"], ["O0", "O2", "o1"]),
    ("aoe_config.aoe_mode", ["2", None], ["1", ""]),
    ("experimental_config.jit_compile", ["auto"], ["on", ""]),
    ("experimental_config.static_model_ops_lower_limit", [-1, 2, 100, None], [-2, 0, 1]),
    (
        "experimental_config.topology_sorting_strategy",
        ["BFS", "DFS", "RDFS", "StableRDFS"],
        ["dfs", "stable"],
    ),
    ("debug.aclgraph.static_capture_size_limit", [1, 64, 2**63 - 1], [0, -1, 2**63]),
    ("debug.aclgraph.capture_error_mode", ["global", "thread_local", "relaxed"], ["none", "local"]),
    ("debug.graph_dump.type", ["txt", "pbtxt", "py", "svg", "html", None], ["png", ""]),
    ("debug.data_dump.type", ["npy", None], ["pt"]),
    (RANGE, [[], [1, 2, 4], (8,), None], [[-1]]),
    (SUPER, [{}, {"split_mode": 1, "dcci_before_kernel_start": ["a"]}, None], [{"stream-fusion": 1}]),
    (SUPER_DEBUG, [{"debug_sync_all": 1, "debug_extend": "x"}], [{"split_mode": 1}]),
    ("air.warmup", [0, 1, 100], [-1, 101]),
    ("air.static_kernel.time_limit_s", [0.5, 60, None], [0, -1, float("inf"), float("nan")]),
    ("air.static_kernel.jobs", [1, 64, None], [0, 5000]),
    ("air.cache.limit_bytes", [1, 2**40, None], [0, -1]),
]


@pytest.mark.parametrize(("path", "good", "bad"), FORMS, ids=[path for path, _, _ in FORMS])
def test_the_option_takes_its_forms_and_refuses_others(path: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        config = CompilerConfig()
        config.set(path, value)
        again = CompilerConfig.from_json(config.to_json())
        assert again == config
    for value in bad:
        with pytest.raises(WrongValue) as caught:
            CompilerConfig().set(path, value)
        assert caught.value.path == path
        assert caught.value.given is value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("ge_config.export_compile_stat", 2),
        ("aoe_config.aoe_mode", 2),
        ("ge_config.aicore_num", (24, 48)),
        ("experimental_config.cc_parallel_enable", "1"),
        ("debug.aclgraph.static_capture_size_limit", 64.0),
        (SUPER, {"split_mode": "1"}),
        (SUPER, {"split_mode": True}),
        (RANGE, [True]),
        (RANGE, range(3)),
        ("air.static_kernel.blacklist", "Add"),
    ],
)
def test_what_merely_looks_like_the_value_has_the_wrong_type(path: str, value: object) -> None:
    with pytest.raises(WrongType):
        CompilerConfig().set(path, value)
