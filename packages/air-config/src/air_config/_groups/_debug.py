"""`config.debug`: switches to isolate a problem, and those of capture and replay.

Most of `debug.aclgraph` is not about debugging; the names are TorchAir's and stay where its users know them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from air_config import _areas as area
from air_config._callable_kinds import function
from air_config._kinds import boolean, choice, integer, optional
from air_config._option import Group, group, option, subgroup
from air_config._path_kinds import directory

__all__ = ["AclGraphDebug", "DataDump", "Debug", "FxSummary", "GraphDump"]


@group("debug.aclgraph")
class AclGraphDebug(Group):
    """Passes, capture and replay of aclgraph."""

    disable_reinplace_inplaceable_ops_pass: bool = option(
        False,
        boolean(),
        "Switch off the pass that turns out-of-place operators inside the graph into in-place ones.",
        area.ACL_PASSES,
        "experimental",
        inert=True,
    )
    disable_reinplace_input_mutated_ops_pass: bool = option(
        False,
        boolean(),
        "Switch off the pass that turns 'operator, then copy_ into an input' back into an in-place operator "
        "(KV caches).",
        area.ACL_PASSES,
        "experimental",
        inert=True,
    )
    remove_cat_ops: bool = option(
        True,
        boolean(),
        "Let the producers of a concatenation write straight into slices of its result.",
        area.ACL_PASSES,
        "experimental",
        inert=False,
    )
    disable_mempool_reuse_in_same_fx: bool = option(
        False,
        boolean(),
        "Do not share one memory pool between the shapes captured for one graph.",
        area.CAPTURE,
        "experimental",
    )
    enable_output_clone: bool = option(
        False,
        boolean(),
        'Return clones of the outputs; the same as `air.outputs = "clone"`.',
        area.CAPTURE,
        "experimental",
    )
    static_capture_size_limit: int = option(
        64,
        integer(1),
        "How many shapes of one graph stay captured; the least recently used one is dropped for a new one.",
        area.CAPTURE,
        "experimental",
    )
    clone_input: bool = option(
        True,
        boolean(),
        "Copy inputs into buffers of the capture, instead of binding the caller's own tensors.",
        area.CAPTURE,
        "experimental",
    )
    capture_error_mode: Literal["global", "thread_local", "relaxed"] = option(
        "thread_local",
        choice("global", "thread_local", "relaxed"),
        "Which calls during a capture are errors: unsafe ones of any thread, of this thread, or none. With "
        "`global`, a copy that another thread makes in the meantime fails.",
        area.CAPTURE,
        "experimental",
    )
    force_recapture: bool = option(
        False,
        boolean(),
        "Capture again on every call; for finding out whether replay is at fault.",
        area.CAPTURE,
        "experimental",
    )
    unsafe_skip_npugraph_capture_validation: bool = option(
        False,
        boolean(),
        "Skip the checks before each replay that decide about recapture. Stale addresses then give wrong "
        "results without a word.",
        area.CAPTURE,
        "experimental",
    )
    record_statistics_debug_info: bool = option(
        False,
        boolean(),
        "Add minimum, maximum, mean and norm to the tensors in DEBUG logs; synchronises the device.",
        area.CAPTURE,
        "experimental",
    )


@group("debug.graph_dump")
class GraphDump(Group):
    """The graph, written before and after optimisation."""

    type: Literal["txt", "pbtxt", "py", "svg", "html"] | None = option(
        None,
        optional(choice("txt", "pbtxt", "py", "svg", "html")),
        "Format of the files; None writes nothing. TorchAir has no svg and html.",
        area.DUMP,
    )
    path: str | None = option(
        None,
        optional(directory(may_be_made=True)),
        "Directory of the files; None is the working directory.",
        area.DUMP,
        needs="debug.graph_dump.type",
    )


@group("debug.data_dump")
class DataDump(Group):
    """The tensors of every operator, from an eager run of the graph."""

    type: Literal["npy"] | None = option(
        None, optional(choice("npy")), "Format of the files; None writes nothing.", area.DUMP
    )
    path: str | None = option(
        None,
        optional(directory(may_be_made=True)),
        "Directory of the files; None is the working directory.",
        area.DUMP,
        needs="debug.data_dump.type",
    )
    filter: Callable[..., Any] | None = option(
        None,
        optional(function()),
        "Called with each node; a node for which it returns None is left out.",
        area.DUMP,
        needs="debug.data_dump.type",
    )


@group("debug.fx_summary")
class FxSummary(Group):
    """A table of the operators of a graph and of who supports them."""

    type: Literal["csv"] | None = option(
        None, optional(choice("csv")), "Format of the file; None writes nothing.", area.IR_DUMP
    )
    skip_compile: bool = option(
        True,
        boolean(),
        "Write the table and run the graph eagerly, without compiling it.",
        area.IR_DUMP,
        needs="debug.fx_summary.type",
    )


@group("debug")
class Debug(Group):
    """Isolating a problem, and the switches of aclgraph."""

    run_eagerly: bool = option(
        False,
        boolean(),
        "Run the FX graph eagerly instead of handing it to an executor: tells a fault of the graph from a "
        "fault of the executor.",
        area.FRONT,
    )
    deadlock_check: bool = option(
        False,
        boolean(),
        "Refuse a graph whose collectives run on two streams without an order: ranks may start them in different "
        "orders and wait for each other for ever.",
        area.DUMP,
    )
    graph_dump: GraphDump = subgroup(GraphDump)
    data_dump: DataDump = subgroup(DataDump)
    fx_summary: FxSummary = subgroup(FxSummary)
    aclgraph: AclGraphDebug = subgroup(AclGraphDebug)
