"""Every rule has a case that makes it fire and one that does not, and no rule is without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from air_config import (
    OPTIONS,
    RULES,
    CompilerConfig,
    Context,
    Notice,
    ProfilerState,
    RefusedOption,
    Rule,
    resolve,
)

STATIC = "experimental_config.aclgraph._aclnn_static_shape_kernel"
SUPER = "experimental_config.aclgraph._super_kernel_optimize"
INPLACEABLE = "debug.aclgraph.disable_reinplace_inplaceable_ops_pass"
MUTATED = "debug.aclgraph.disable_reinplace_input_mutated_ops_pass"
REUSE = "debug.aclgraph.disable_mempool_reuse_in_same_fx"
SORTING = "experimental_config.topology_sorting_strategy"
REF_DATA = "experimental_config.enable_ref_data"
ANOTHER = object()
"""Stands for a value other than the default."""


@dataclass(frozen=True)
class Case:
    """An option, and what has to be set around it."""

    option: str
    options: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    used: Any = ...
    """The value the option must end with; `...` leaves it open."""


def acl(option: str, used: Any = ..., /, **context: Any) -> Case:
    return Case(option, {"mode": "reduce-overhead", option: ANOTHER}, context, used)


def ir(option: str, used: Any = ..., /, **context: Any) -> Case:
    return Case(option, {"mode": "max-autotune", option: ANOTHER}, context, used)


def plus(case: Case, **options: Any) -> Case:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return Case(case.option, {**case.options, **named}, case.context, case.used)


def unset(case: Case) -> Case:
    """The same without assigning the option itself."""
    options = {path: value for path, value in case.options.items() if path != case.option}
    return Case(case.option, options, case.context, case.used)


PROFILED = {"profiler": ProfilerState(record_op_args=True, skip_first=0)}
A2, A3, OLD = "Ascend910B3", "Ascend910_9391", "Ascend310P3"

CASES: dict[str, tuple[Case, Case]] = {
    "one-card-per-process": (
        Case("context.cards", {}, {"cards": 2}),
        Case("context.cards", {}, {"cards": 1}),
    ),
    "buckets-pad-captures": (
        Case("context.buckets", {}, {"buckets": True}),
        Case("context.buckets", {"mode": "reduce-overhead"}, {"buckets": True}),
    ),
    "buckets-need-captures": (
        Case("context.buckets", {"mode": "reduce-overhead", "debug.run_eagerly": True}, {"buckets": True}),
        Case("context.buckets", {"mode": "reduce-overhead"}, {"buckets": True}),
    ),
    "gears-are-for-a-graph-engine": (
        Case("context.gears", {"mode": "reduce-overhead"}, {"gears": True}),
        Case("context.gears", {}, {"gears": True}),
    ),
    "aclgraph-products": (
        Case("mode", {"mode": "reduce-overhead"}, {"soc": OLD}, "reduce-overhead"),
        Case("mode", {"mode": "reduce-overhead"}, {"soc": A3}),
    ),
    "max-autotune-not-on-cuda": (
        Case("mode", {}, {"device": "cuda"}),
        Case("mode", {"mode": "reduce-overhead"}, {"device": "cuda"}),
    ),
    "inductor-kernels-need-reduce-overhead": (ir("air.kernels", "aten"), acl("air.kernels", "inductor")),
    "inductor-kernels-are-captured": (
        plus(acl("air.kernels", "aten"), debug__run_eagerly=True),
        acl("air.kernels", "inductor"),
    ),
    "fx-passes-need-reduce-overhead": (ir(INPLACEABLE, True), acl(INPLACEABLE, True)),
    "static-kernels-need-reduce-overhead": (ir(STATIC, False), acl(STATIC, True)),
    "streams-need-reduce-overhead": (
        Case("context.multi_stream", {}, {"multi_stream": True}),
        Case("context.multi_stream", {"mode": "reduce-overhead"}, {"multi_stream": True}),
    ),
    "aclgraph-options-in-max-autotune": (
        ir("debug.aclgraph.clone_input", True),
        acl("debug.aclgraph.clone_input", False),
    ),
    "max-autotune-options-in-aclgraph": (acl("ge_config.oo_level", "O3"), ir("ge_config.oo_level", "O1")),
    "aclgraph-dumps-python": (
        acl("debug.graph_dump.type", None),
        Case("debug.graph_dump.type", {"mode": "reduce-overhead", "debug.graph_dump.type": "py"}, {}, "py"),
    ),
    "run-eagerly-in-max-autotune": (
        plus(ir("experimental_config.frozen_parameter", False), debug__run_eagerly=True),
        ir("experimental_config.frozen_parameter", True),
    ),
    "run-eagerly-in-reduce-overhead": (
        plus(acl("debug.aclgraph.static_capture_size_limit", 64), debug__run_eagerly=True),
        acl("debug.aclgraph.static_capture_size_limit", 7),
    ),
    "force-eager-in-npugraph-ex": (
        plus(acl("air.warmup", 1), mode="npugraph_ex", debug__run_eagerly=True),
        plus(acl("air.warmup", 7), mode="npugraph_ex"),
    ),
    "fx-passes-products": (acl(MUTATED, True, soc=OLD), acl(MUTATED, True, soc=A2)),
    "static-kernel-products": (acl(STATIC, False, soc=OLD), acl(STATIC, True, soc=A2)),
    "streams-products": (
        Case("context.multi_stream", {"mode": "reduce-overhead"}, {"multi_stream": True, "soc": OLD}),
        Case("context.multi_stream", {"mode": "reduce-overhead"}, {"multi_stream": True, "soc": A3}),
    ),
    "reinplace-off-with-streams": (
        unset(acl(INPLACEABLE, True, multi_stream=True)),
        plus(unset(acl(INPLACEABLE, False, multi_stream=True)), air__reinplace_with_streams="ordering"),
    ),
    "single-stream-with-streams": (
        ir("ge_config.enable_single_stream", False, multi_stream=True),
        ir("ge_config.enable_single_stream", True, multi_stream=False),
    ),
    "npu-kernels-on-the-host": (
        acl(STATIC, False, device="cpu", npu_elsewhere=True),
        acl(STATIC, True, npu_elsewhere=True),
    ),
    "npu-engine-on-the-host": (
        Case("air.engine", {"air.engine": "atc"}, {"device": "cpu", "npu_elsewhere": True}, "auto"),
        Case(
            "air.engine", {"air.engine": "reference"}, {"device": "cpu", "npu_elsewhere": True}, "reference"
        ),
    ),
    "static-kernel-needs-npu": (acl(STATIC, False, device="cpu"), acl(STATIC, True, device="npu")),
    "static-kernel-with-profiler": (
        acl(STATIC, False, **PROFILED),
        acl(STATIC, True, profiler=ProfilerState(record_op_args=True, skip_first=1)),
    ),
    "static-kernel-needs-local-world-size": (
        acl(STATIC, False, world_size=4, env={}),
        acl(STATIC, True, world_size=4, env={"LOCAL_WORLD_SIZE": "2"}),
    ),
    "local-world-size-is-a-number": (
        acl(STATIC, False, world_size=4, env={"LOCAL_WORLD_SIZE": "two"}),
        acl(STATIC, True, world_size=1, env={"LOCAL_WORLD_SIZE": "two"}),
    ),
    "local-world-size-divides": (
        acl(STATIC, False, world_size=4, env={"LOCAL_WORLD_SIZE": "3"}),
        acl(STATIC, True, world_size=6, env={"LOCAL_WORLD_SIZE": "3"}),
    ),
    "local-world-size-is-equal": (
        acl(STATIC, False, local_world_sizes=(4, 2)),
        acl(STATIC, True, local_world_sizes=(4, 4)),
    ),
    "static-kernel-with-core-limits": (
        acl(STATIC, False, core_limits=True, cann="8.5.0"),
        acl(STATIC, True, core_limits=True, cann="9.0.0"),
    ),
    "private-install-needs-cann-9.1": (
        plus(acl("air.static_kernel.install_dir", None, cann="9.0.0"), **{STATIC: True}),
        plus(acl("air.static_kernel.install_dir", cann="9.1.0"), **{STATIC: True}),
    ),
    "super-kernel-needs-npu": (acl(SUPER, False, device="cuda"), acl(SUPER, True)),
    "pool-needs-accelerator": (
        acl("aclgraph_config.use_custom_pool", None, device="cpu"),
        acl("aclgraph_config.use_custom_pool", (0, 3), device="cuda"),
    ),
    "engine-needs-npu": (
        Case("air.engine", {"air.engine": "atc"}, {"device": "cpu"}, "auto"),
        Case("air.engine", {"air.engine": "reference"}, {"device": "cpu"}, "reference"),
    ),
    "ge-session-needs-cann-8.5": (
        Case("air.engine", {"air.engine": "ge_session"}, {"cann": "8.3.RC1"}, "auto"),
        Case("air.engine", {"air.engine": "ge_session"}, {"cann": "8.5.0"}, "ge_session"),
    ),
    "ge-options-need-ge": (
        plus(ir("ge_config.oo_level", "O3"), air__engine="reference"),
        plus(ir("ge_config.oo_level", "O1"), air__engine="torchair_extension"),
    ),
    "view-inplace-needs-cann-8.3": (
        unset(acl("air.view_inplace", False, cann="8.2.RC1")),
        unset(acl("air.view_inplace", True, cann="8.3.RC1")),
    ),
    "pool-of-caller-ends-reuse": (
        plus(unset(acl(REUSE, True)), aclgraph_config__use_custom_pool=(0, 1)),
        unset(acl(REUSE, False)),
    ),
    "super-kernel-ends-dump": (
        plus(acl("dump_config.enable_dump", False), **{SUPER: True}),
        acl("dump_config.enable_dump", True),
    ),
    "output-clone": (
        plus(unset(acl("air.outputs", "clone")), debug__aclgraph__enable_output_clone=True),
        unset(acl("air.outputs", "kept")),
    ),
    "saved-for-backward": (
        Case("air.outputs", {"mode": "reduce-overhead", "air.outputs": "view"}, {"training": True}, "kept"),
        Case("air.outputs", {"mode": "reduce-overhead", "air.outputs": "view"}, {"training": False}, "view"),
    ),
    "input-rewrites-need-mutations": (
        plus(unset(acl(MUTATED, True)), experimental_config__keep_inference_input_mutations=False),
        unset(acl(MUTATED, False)),
    ),
    "skipped-validation-never-recaptures": (
        plus(
            acl("debug.aclgraph.force_recapture", False),
            debug__aclgraph__unsafe_skip_npugraph_capture_validation=True,
        ),
        acl("debug.aclgraph.force_recapture", True),
    ),
    "point-to-point-keeps-program-order": (
        unset(ir(SORTING, "StableRDFS", point_to_point=True)),
        unset(ir(SORTING, "DFS")),
    ),
    "point-to-point-needs-cann-8.6": (
        Case("context.point_to_point", {}, {"point_to_point": True, "cann": "8.5.0"}),
        Case("context.point_to_point", {}, {"point_to_point": True, "cann": "8.6.0"}),
    ),
    "adaptive-slots-need-copies": (
        plus(acl("air.adaptive_slots", None), debug__aclgraph__clone_input=False),
        acl("air.adaptive_slots", 7),
    ),
    "dump-of-the-original-graph": (
        plus(
            acl("air.verify", False), dump_config__enable_dump=True, dump_config__data_dump_stage="original"
        ),
        plus(acl("air.verify", True), dump_config__enable_dump=True),
    ),
    "data-dump-replaces-the-executor": (
        plus(acl("air.warmup", 1), debug__data_dump__type="npy"),
        acl("air.warmup", 7),
    ),
    "data-dump-leaves-no-ascend-ir": (
        plus(ir("debug.graph_dump.type", None), debug__data_dump__type="npy"),
        plus(acl("debug.graph_dump.type", "py"), debug__data_dump__type="npy", debug__graph_dump__type="py"),
    ),
    "summary-replaces-the-compilation": (
        plus(ir("air.unsupported", "split"), debug__fx_summary__type="csv"),
        plus(
            ir("air.unsupported", "error"),
            debug__fx_summary__type="csv",
            debug__fx_summary__skip_compile=False,
        ),
    ),
    "o1-keeps-program-order": (
        plus(unset(ir(SORTING, "StableRDFS")), ge_config__oo_level="O1"),
        unset(ir(SORTING, "DFS")),
    ),
    "switch-before-fusion-file": (
        plus(ir("fusion_config.fusion_switch_file"), ge_config__optimization_switch="A:on"),
        ir("fusion_config.fusion_switch_file"),
    ),
    "exports-write-graphs-alone": (
        Case("mode", {"mode": "reduce-overhead"}, {"export": True}, "max-autotune"),
        Case("mode", {"mode": "reduce-overhead"}, {}),
    ),
    "reference-data-in-exports": (unset(ir(REF_DATA, True, export=True)), unset(ir(REF_DATA, False))),
    "no-frozen-parameters-in-exports": (
        ir("experimental_config.frozen_parameter", False, export=True),
        plus(ir("experimental_config.frozen_parameter", True), export__export_mode=True),
    ),
    "no-gears-in-exports": (
        Case("context.gears", {}, {"export": True, "gears": True}),
        Case("context.gears", {}, {"export": False, "gears": True}),
    ),
    "no-reference-data-with-gears": (ir(REF_DATA, False, gears=True), ir(REF_DATA, True)),
    "compile-cache-limits": (
        ir("aoe_config.aoe_mode", None, compile_cache=True),
        ir("aoe_config.aoe_mode", "2"),
    ),
    "compilations-export-nothing": (
        ir("export.experimental.enable_record_nn_module_stack", False),
        ir("export.experimental.enable_record_nn_module_stack", True, export=True),
    ),
    "not-in-this-version": (
        ir("experimental_config.npu_fx_pass", True),
        unset(ir("experimental_config.npu_fx_pass", False)),
    ),
    "static-graphs-only": (
        ir("experimental_config.tiling_schedule_optimize", False, dynamic=True),
        ir("experimental_config.tiling_schedule_optimize", True, dynamic=False),
    ),
}
NEEDS = [rule for rule in RULES if rule.name.startswith("needs-")]
Another = Callable[[str], Any]


def notices_of(case: Case, another: Another) -> dict[tuple[str, str], Notice]:
    """What resolving the case reports, by rule and option; also checks the value it must end with."""
    config = CompilerConfig()
    for path, value in case.options.items():
        config.set(path, another(path) if value is ANOTHER else value)
    settings = resolve(config, Context(**case.context))
    if case.used is not ...:
        holder: Any = settings
        for part in case.option.split("."):
            holder = getattr(holder, part)
        assert holder == case.used
    return {(notice.rule, notice.option): notice for notice in settings.notices}


def test_every_rule_has_a_case_of_its_own() -> None:
    assert {rule.name for rule in RULES} == {*CASES, *(rule.name for rule in NEEDS)}


def test_rule_names_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_every_rule_says_where_it_comes_from_and_names_real_options() -> None:
    for rule in RULES:
        assert rule.source, rule.name
        assert rule.reason, rule.name
        assert rule.options, rule.name
        for path in rule.options:
            assert path in OPTIONS or path.startswith("context."), rule.name


@pytest.mark.parametrize("name", CASES)
def test_the_rule_fires(name: str, another: Another) -> None:
    case = CASES[name][0]
    notice = notices_of(case, another)[name, case.option]
    rule = next(each for each in RULES if each.name == name)
    assert (notice.effect, notice.source, notice.reason) == (rule.effect, rule.source, rule.reason)


@pytest.mark.parametrize("name", CASES)
def test_the_rule_stays_quiet(name: str, another: Another) -> None:
    case = CASES[name][1]
    assert (name, case.option) not in notices_of(case, another)


NO_PART = ("not-in-this-version", "compilations-export-nothing")
"""Rules about options that no switch brings into action."""
SWITCH_CASES = [(rule, path) for rule in NEEDS for path in rule.options]


def mode_of(path: str) -> str:
    modes = OPTIONS[path].area.modes
    return "max-autotune" if "max-autotune" in modes else "reduce-overhead"


@pytest.mark.parametrize(("rule", "path"), SWITCH_CASES, ids=[path for _, path in SWITCH_CASES])
def test_an_option_without_its_switch_is_ignored_with_a_notice(
    rule: Rule, path: str, another: Another
) -> None:
    switch = OPTIONS[path].needs
    options = {"mode": mode_of(path), path: ANOTHER}
    assert (rule.name, path) in notices_of(Case(path, options, {}, OPTIONS[path].inert), another)
    chain = {switch: ANOTHER}
    while OPTIONS[switch].needs:
        switch = OPTIONS[switch].needs
        chain[switch] = ANOTHER
    found = notices_of(Case(path, {**options, **chain}), another)
    assert not any(key[1] == path for key in found if key[0] not in NO_PART)


ONE_VALUE = {"experimental_config.jit_compile"}
"""Options that have no other value than their default: assigning that changes nothing, and no notice is about it."""
BROAD = [
    (rule.name, path)
    for rule in RULES
    if len(rule.options) > 3
    for path in rule.options
    if path not in ONE_VALUE
]


@pytest.mark.parametrize(("name", "path"), BROAD)
def test_a_rule_about_many_options_reports_each_of_them(name: str, path: str, another: Another) -> None:
    if name in CASES:
        around = {key: value for key, value in CASES[name][0].options.items() if value is not ANOTHER}
        options = {**around, path: ANOTHER} if path not in around else around
        context = CASES[name][0].context
        found = notices_of(Case(path, options, context), another)
        assert any(key[1] == path for key in found), sorted(found)


def test_S06_run_eagerly_in_max_autotune_leaves_nothing_else_in_action(another: Another) -> None:
    config = CompilerConfig()
    for path, row in OPTIONS.items():
        if "max-autotune" in row.area.modes and path != "mode":
            config.set(path, another(path))
    config.debug.run_eagerly = True
    settings = resolve(config)
    for path, row in OPTIONS.items():
        if row.area.name not in ("front", "training"):
            holder: Any = settings
            for part in path.split("."):
                holder = getattr(holder, part)
            assert holder == row.inert, path


def test_S06_run_eagerly_in_reduce_overhead_keeps_passes_and_static_kernels(another: Another) -> None:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.debug.run_eagerly = True
    kept = [path for path, row in OPTIONS.items() if row.area.name in ("aclgraph-passes", "static-kernel")]
    for path in kept:
        config.set(path, another(path))
    assert {notice.rule for notice in resolve(config).notices} <= {"not-in-this-version"}


def test_S17_reinplace_with_streams_says_which_option_keeps_it_on() -> None:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    notices = resolve(config, Context(multi_stream=True)).notices
    assert {notice.option for notice in notices} == {INPLACEABLE, MUTATED}
    assert all("air.reinplace_with_streams" in notice.reason for notice in notices)
    assert all(notice.effect == "overridden" and not notice.asked for notice in notices)


def test_S18_fx_pass_switches_outside_reduce_overhead_give_a_notice_each() -> None:
    config = CompilerConfig()
    config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = True
    config.debug.aclgraph.disable_reinplace_input_mutated_ops_pass = True
    rules = [notice.rule for notice in resolve(config).notices]
    assert rules == ["fx-passes-need-reduce-overhead"] * 2


def test_S12_the_profiler_conflict_is_refused_with_what_to_change() -> None:
    config = CompilerConfig.from_options({"mode": "reduce-overhead", "static_kernel_compile": True})
    (notice,) = resolve(config, Context(profiler=ProfilerState(record_op_args=True))).refusals
    assert "skip_first above 0" in notice.reason
    assert resolve(config, Context(profiler=ProfilerState(record_op_args=False))).refusals == ()


@pytest.mark.parametrize("text", [None, "", "0", "-2", "2.0", "two", "\u0662", "3", "8"])
def test_S11_static_kernels_in_several_processes_need_a_sound_local_world_size(text: str | None) -> None:
    config = CompilerConfig.from_options({"mode": "reduce-overhead", "static_kernel_compile": True})
    env = {} if text is None else {"LOCAL_WORLD_SIZE": text}
    settings = resolve(config, Context(world_size=4, env=env))
    (notice,) = settings.refusals
    assert "LOCAL_WORLD_SIZE" in notice.reason
    with pytest.raises(RefusedOption, match="LOCAL_WORLD_SIZE"):
        settings.check()


@pytest.mark.parametrize("text", ["1", "2", "4", " 2 "])
def test_S11_a_local_world_size_that_divides_is_accepted(text: str) -> None:
    config = CompilerConfig.from_options({"mode": "reduce-overhead", "static_kernel_compile": True})
    notices = resolve(config, Context(world_size=4, env={"LOCAL_WORLD_SIZE": text})).check().notices
    assert notices == ()


def test_a_single_process_needs_no_local_world_size() -> None:
    config = CompilerConfig.from_options({"mode": "reduce-overhead", "static_kernel_compile": True})
    notices = resolve(config, Context(world_size=1, env={})).check().notices
    assert notices == ()


def test_devices_named_by_an_area_are_kept_by_some_rule(another: Another) -> None:
    """An area that exists on some devices only has, on each other device, a rule that puts its options out."""
    for path, row in OPTIONS.items():
        for device in {"npu", "cuda", "cpu"} - set(row.area.devices):
            if path in ONE_VALUE:
                continue
            config = CompilerConfig()
            config.mode = "max-autotune" if "max-autotune" in row.area.modes else "reduce-overhead"
            if row.needs:
                config.set(row.needs, another(row.needs))
            config.set(path, another(path))
            touched = {notice.option for notice in resolve(config, Context(device=device)).notices}
            assert path in touched, (path, device)


@pytest.mark.parametrize(
    ("path", "around"),
    [
        ("dump_config.enable_dump", {"mode": "npugraph_ex", "debug.run_eagerly": True}),
        ("air.verify", {"mode": "npugraph_ex", "debug.run_eagerly": True}),
        ("air.sync", {"mode": "reduce-overhead", "debug.run_eagerly": True}),
        ("air.verify", {"mode": "reduce-overhead", "debug.data_dump.type": "npy"}),
        ("experimental_config.keep_inference_input_mutations", {"debug.run_eagerly": True}),
        ("debug.deadlock_check", {"debug.data_dump.type": "npy"}),
    ],
)
def test_what_still_acts_when_the_executor_does_not_run_is_left_alone(
    path: str, around: dict[str, Any], another: Another
) -> None:
    assert notices_of(Case(path, {**around, path: ANOTHER}, {}, another(path)), another) == {}
