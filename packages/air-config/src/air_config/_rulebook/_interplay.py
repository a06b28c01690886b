"""Rules between options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from air_config._rulebook._conditions import (
    ACLGRAPH,
    ARCHITECTURE,
    DATA_DUMP,
    DUMP,
    DYNAMIC,
    EXPORTED,
    GEARS,
    MAX_AUTOTUNE,
    MUTATED,
    NPUGRAPH_EX,
    ORIGINAL_DUMP,
    POINT_TO_POINT,
    SUPER,
    SUPPORT_CHECK,
    TORCH_NPU,
    TORCHAIR_IR,
    but,
    in_areas,
    where,
)
from air_config._rules import KEEP, Rule, both, fact, option_is, option_off, option_on
from air_config._tree import OPTIONS

REPORTS: Final = but(in_areas("dump", "ir-dump"), "debug.deadlock_check")
"""What asks for files in max-autotune; the check of deadlocks is made of the FX graph, and so in any case."""

_OF_DATA_DUMP: Final = tuple(path for path in OPTIONS if path.startswith("debug.data_dump."))

INTERPLAY: Final = (
    Rule(
        "dump-of-the-original-graph",
        both(ACLGRAPH, ORIGINAL_DUMP),
        where(lambda area: area.stage != "always" and "reduce-overhead" in area.modes),
        "ignored",
        "the graph is dumped as it arrived: run eagerly, without passes",
        NPUGRAPH_EX,
    ),
    Rule(
        "data-dump-replaces-the-executor",
        DATA_DUMP,
        where(lambda area: area.stage == "executor"),
        "ignored",
        "the graph is run eagerly to dump its tensors",
        SUPPORT_CHECK,
    ),
    Rule(
        "data-dump-leaves-no-ascend-ir",
        both(MAX_AUTOTUNE, DATA_DUMP),
        but(REPORTS, *_OF_DATA_DUMP),
        "ignored",
        "the graph is run eagerly to dump its tensors, and no Ascend IR is made of it",
        SUPPORT_CHECK,
    ),
    Rule(
        "summary-replaces-the-compilation",
        both(
            MAX_AUTOTUNE, option_on("debug.fx_summary.type"), option_is("debug.fx_summary.skip_compile", True)
        ),
        (
            *where(lambda area: area.stage != "always" and "max-autotune" in area.modes),
            *but(REPORTS, *_OF_DATA_DUMP, "debug.fx_summary.type", "debug.fx_summary.skip_compile"),
        ),
        "ignored",
        "the graph is summarised and run eagerly",
        TORCHAIR_IR,
    ),
    Rule(
        "pool-of-caller-ends-reuse",
        both(ACLGRAPH, option_on("aclgraph_config.use_custom_pool")),
        ("debug.aclgraph.disable_mempool_reuse_in_same_fx",),
        "overridden",
        "memory of a pool of the caller is not reused between shapes",
        NPUGRAPH_EX,
        True,
    ),
    Rule(
        "super-kernel-ends-dump",
        both(ACLGRAPH, option_on(SUPER)),
        (DUMP,),
        "overridden",
        "the operators inside a super kernel have no tensors to dump",
        NPUGRAPH_EX,
        False,
    ),
    Rule(
        "output-clone",
        both(ACLGRAPH, option_on("debug.aclgraph.enable_output_clone")),
        ("air.outputs",),
        "overridden",
        "debug.aclgraph.enable_output_clone asks for copies",
        NPUGRAPH_EX,
        "clone",
    ),
    Rule(
        "saved-for-backward",
        both(
            ACLGRAPH,
            option_off("debug.run_eagerly"),
            option_is("air.outputs", "view", "guarded"),
            fact("the graph is half of a training step", lambda context: context.training),
        ),
        ("air.outputs",),
        "overridden",
        "what autograd saved for the backward half, and gradients, must survive the next replay",
        ARCHITECTURE,
        "kept",
    ),
    Rule(
        "input-rewrites-need-mutations",
        both(ACLGRAPH, option_is("experimental_config.keep_inference_input_mutations", False)),
        (MUTATED, "air.view_inplace"),
        "overridden",
        "without keep_inference_input_mutations the graph has no copy_ into an input to rewrite",
        NPUGRAPH_EX,
    ),
    Rule(
        "skipped-validation-never-recaptures",
        both(ACLGRAPH, option_on("debug.aclgraph.unsafe_skip_npugraph_capture_validation")),
        ("debug.aclgraph.force_recapture",),
        "ignored",
        "forcing is part of the checks that unsafe_skip_npugraph_capture_validation skips",
        TORCH_NPU,
    ),
    Rule(
        "adaptive-slots-need-copies",
        both(ACLGRAPH, option_is("debug.aclgraph.clone_input", False)),
        ("air.adaptive_slots",),
        "ignored",
        "with clone_input off every input is bound from the start",
        ARCHITECTURE,
    ),
    Rule(
        "o1-keeps-program-order",
        both(MAX_AUTOTUNE, option_is("ge_config.oo_level", "O1")),
        ("experimental_config.topology_sorting_strategy",),
        "overridden",
        "level O1 sorts stably",
        TORCHAIR_IR,
        "StableRDFS",
    ),
    Rule(
        "point-to-point-keeps-program-order",
        both(MAX_AUTOTUNE, POINT_TO_POINT),
        ("experimental_config.topology_sorting_strategy",),
        "overridden",
        "sends and receives of several ranks must be issued in the order of the program",
        TORCHAIR_IR,
        "StableRDFS",
    ),
    Rule(
        "switch-before-fusion-file",
        both(option_on("ge_config.optimization_switch"), option_on("fusion_config.fusion_switch_file")),
        ("fusion_config.fusion_switch_file",),
        "overridden",
        "passes that ge_config.optimization_switch names follow it, not the file",
        TORCHAIR_IR,
        KEEP,
    ),
    Rule(
        "reference-data-in-exports",
        both(MAX_AUTOTUNE, EXPORTED),
        ("experimental_config.enable_ref_data",),
        "overridden",
        "an export always represents written inputs as references",
        TORCHAIR_IR,
        True,
    ),
    Rule(
        "no-frozen-parameters-in-exports",
        both(MAX_AUTOTUNE, EXPORTED),
        ("experimental_config.frozen_parameter",),
        "refused",
        "addresses of this process mean nothing in an exported graph",
        TORCHAIR_IR,
    ),
    Rule(
        "no-gears-in-exports",
        both(MAX_AUTOTUNE, EXPORTED, GEARS),
        ("context.gears",),
        "refused",
        "a graph with gears cannot be exported",
        TORCHAIR_IR,
    ),
    Rule(
        "no-reference-data-with-gears",
        both(MAX_AUTOTUNE, GEARS),
        ("experimental_config.enable_ref_data",),
        "refused",
        "a graph with gears cannot hold references",
        TORCHAIR_IR,
    ),
    Rule(
        "compile-cache-limits",
        both(
            MAX_AUTOTUNE,
            fact("the function goes to the compile cache", lambda context: context.compile_cache),
        ),
        ("export.export_mode", "experimental_config.enable_ref_data", "aoe_config.aoe_mode"),
        "refused",
        "the compile cache stores neither exports, nor references, nor tuning",
        TORCHAIR_IR,
    ),
    Rule(
        "static-graphs-only",
        both(MAX_AUTOTUNE, DYNAMIC),
        (
            "ge_config.enable_single_stream",
            "experimental_config.tiling_schedule_optimize",
            "aoe_config.aoe_mode",
        ),
        "ignored",
        "the option acts on graphs without symbolic sizes",
        TORCHAIR_IR,
    ),
)


def switched_off() -> Iterator[Rule]:
    """One row for each switch: what hangs on it does nothing while it is off."""
    dependents: dict[str, list[str]] = {}
    for path, row in OPTIONS.items():
        if row.needs:
            dependents.setdefault(row.needs, []).append(path)
    for switch, paths in dependents.items():
        name = switch.rpartition(".")[2].strip("_").replace("_", "-")
        holder = switch.split(".")[-2].replace("_", "-")
        reason = f"{switch} is off"
        yield Rule(
            f"needs-{holder}-{name}", option_off(switch), tuple(paths), "ignored", reason, SUPPORT_CHECK
        )
