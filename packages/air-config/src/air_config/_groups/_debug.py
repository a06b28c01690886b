"""`config.debug`: switches to isolate a problem, and those of capture and replay.

Most of `debug.aclgraph` is not about debugging; the names are TorchAir's and stay where its users know them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from air_config import _areas as area
from air_config._callable_kinds import function
from air_config._kinds import integer
from air_config._option import Group, group, option, subgroup
from air_config._path_kinds import directory

__all__ = ["AclGraphDebug", "DataDump", "Debug", "FxSummary", "GraphDump"]


@group("debug.aclgraph", area.CAPTURE, "experimental")
class AclGraphDebug(Group):
    """Passes, capture and replay of aclgraph."""

    disable_reinplace_inplaceable_ops_pass: bool = option(
        False,
        "Switch off the pass that turns out-of-place operators inside the graph into in-place ones.",
        area=area.ACL_PASSES,
        inert=True,
    )
    disable_reinplace_input_mutated_ops_pass: bool = option(
        False,
        "Switch off the pass that turns 'operator, then copy_ into an input' back into an in-place operator "
        "(KV caches).",
        area=area.ACL_PASSES,
        inert=True,
    )
    remove_cat_ops: bool = option(
        True,
        "Let the producers of a concatenation write straight into slices of its result.",
        area=area.ACL_PASSES,
        inert=False,
    )
    disable_mempool_reuse_in_same_fx: bool = option(
        False, "Do not share one memory pool between the shapes captured for one graph."
    )
    enable_output_clone: bool = option(
        False, 'Return clones of the outputs; the same as `air.outputs = "clone"`.'
    )
    static_capture_size_limit: int = option(
        64,
        "How many shapes of one graph stay captured; the least recently used one is dropped for a new one.",
        integer(1),
    )
    clone_input: bool = option(
        True, "Copy inputs into buffers of the capture, instead of binding the caller's own tensors."
    )
    capture_error_mode: Literal["global", "thread_local", "relaxed"] = option(
        "thread_local",
        "Which calls during a capture are errors: unsafe ones of any thread, of this thread, or none. With "
        "`global`, a copy that another thread makes in the meantime fails.",
    )
    force_recapture: bool = option(
        False, "Capture again on every call; for finding out whether replay is at fault."
    )
    unsafe_skip_npugraph_capture_validation: bool = option(
        False,
        "Skip the checks before each replay that decide about recapture. Stale addresses then give wrong "
        "results, and no error.",
    )
    record_statistics_debug_info: bool = option(
        False, "Add minimum, maximum, mean and norm to the tensors in DEBUG logs; synchronises the device."
    )


@group("debug.graph_dump", area.DUMP, needs="debug.graph_dump.type")
class GraphDump(Group):
    """The graph, written before and after optimisation."""

    type: Literal["txt", "pbtxt", "py", "svg", "html"] | None = option(
        None, "Format of the files; None writes nothing. TorchAir has no svg and html."
    )
    path: str | None = option(
        None, "Directory of the files; None is the working directory.", directory(may_be_made=True)
    )


@group("debug.data_dump", area.DUMP, needs="debug.data_dump.type")
class DataDump(Group):
    """The tensors of every operator, from an eager run of the graph."""

    type: Literal["npy"] | None = option(None, "Format of the files; None writes nothing.")
    path: str | None = option(
        None, "Directory of the files; None is the working directory.", directory(may_be_made=True)
    )
    filter: Callable[..., Any] | None = option(
        None, "Called with each node; a node for which it returns None is left out.", function("node")
    )


@group("debug.fx_summary", area.IR_DUMP, needs="debug.fx_summary.type")
class FxSummary(Group):
    """A table of the operators of a graph and of who supports them."""

    type: Literal["csv"] | None = option(None, "Format of the file; None writes nothing.")
    skip_compile: bool = option(True, "Write the table and run the graph eagerly, without compiling it.")


@group("debug", area.DUMP)
class Debug(Group):
    """Isolating a problem, and the switches of aclgraph."""

    run_eagerly: bool = option(
        False,
        "Run the FX graph eagerly instead of handing it to an executor: tells a fault of the graph from a "
        "fault of the executor.",
        area=area.FRONT,
    )
    deadlock_check: bool = option(
        False,
        "Refuse a graph whose collectives run on two streams without an order: ranks may start them in different "
        "orders and wait for each other forever.",
    )
    graph_dump: GraphDump = subgroup(GraphDump)
    data_dump: DataDump = subgroup(DataDump)
    fx_summary: FxSummary = subgroup(FxSummary)
    aclgraph: AclGraphDebug = subgroup(AclGraphDebug)
