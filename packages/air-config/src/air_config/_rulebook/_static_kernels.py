"""Rules of static kernels."""

from __future__ import annotations

from typing import Final

from air_config._context import Context
from air_config._rulebook._conditions import (
    ARCHITECTURE,
    MANY_PROCESSES,
    NOT_NPU,
    NPUGRAPH_EX,
    STATIC,
    STATIC_KERNELS,
    TORCH_NPU,
    cann_below,
)
from air_config._rules import Rule, both, fact


def local_world_size(context: Context) -> int | None:
    """LOCAL_WORLD_SIZE as a positive int, or None where it is not one."""
    text = context.env.get("LOCAL_WORLD_SIZE", "").strip()
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def _does_not_divide(context: Context) -> bool:
    size = local_world_size(context)
    return size is not None and context.world_size % size != 0


STATIC_KERNEL: Final = (
    Rule(
        "static-kernel-needs-npu",
        NOT_NPU,
        (STATIC,),
        "refused",
        "the tools of CANN compile static kernels, for NPUs only",
        ARCHITECTURE,
    ),
    Rule(
        "static-kernel-with-profiler",
        fact(
            "the profiler records operator arguments from the first step",
            lambda context: (
                context.profiler is not None
                and context.profiler.record_op_args
                and context.profiler.skip_first == 0
            ),
        ),
        (STATIC,),
        "refused",
        "the profiler and the compilation would both dump operator arguments: set skip_first above 0, "
        "or record_op_args=False",
        STATIC_KERNELS,
    ),
    Rule(
        "static-kernel-needs-local-world-size",
        both(
            MANY_PROCESSES,
            fact("LOCAL_WORLD_SIZE is not set", lambda context: "LOCAL_WORLD_SIZE" not in context.env),
        ),
        (STATIC,),
        "refused",
        "processes of one node install kernels together: export LOCAL_WORLD_SIZE=<processes on this node>",
        STATIC_KERNELS,
    ),
    Rule(
        "local-world-size-is-a-number",
        both(
            MANY_PROCESSES,
            fact(
                "LOCAL_WORLD_SIZE is set and is not a positive integer",
                lambda context: "LOCAL_WORLD_SIZE" in context.env and local_world_size(context) is None,
            ),
        ),
        (STATIC,),
        "refused",
        "LOCAL_WORLD_SIZE must be a natural number, the processes on this node",
        STATIC_KERNELS,
    ),
    Rule(
        "local-world-size-divides",
        both(
            MANY_PROCESSES,
            fact("LOCAL_WORLD_SIZE does not divide the number of processes", _does_not_divide),
        ),
        (STATIC,),
        "refused",
        "every node must run LOCAL_WORLD_SIZE processes",
        STATIC_KERNELS,
    ),
    Rule(
        "local-world-size-is-equal",
        fact(
            "LOCAL_WORLD_SIZE differs between nodes", lambda context: len(set(context.local_world_sizes)) > 1
        ),
        (STATIC,),
        "refused",
        "LOCAL_WORLD_SIZE must be the same on every node",
        STATIC_KERNELS,
    ),
    Rule(
        "static-kernel-with-core-limits",
        both(fact("the graph limits cores", lambda context: context.core_limits), cann_below("9.0.0")),
        (STATIC,),
        "overridden",
        "static kernels ignore core limits before CANN 9.0.0",
        NPUGRAPH_EX,
        False,
    ),
    Rule(
        "private-install-needs-cann-9.1",
        cann_below("9.1.0"),
        ("air.static_kernel.install_dir",),
        "ignored",
        "kernels can have their own install directory from CANN 9.1.0 on",
        TORCH_NPU,
    ),
)
