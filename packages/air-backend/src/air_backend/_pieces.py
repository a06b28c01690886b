"""Compiles a graph in parts where some of its operators have to run eagerly, and says so once.

Which operators those are is known before anything is compiled (`air_aclgraph.uncapturable`), found where an Ascend IR
graph is made, or learned: where a device refuses an operator in the middle of a capture, the graph is cut there, and so
are graphs that are compiled later. Each piece goes the way of a whole graph: streams, passes, executor.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

import air_aclgraph
import air_graph
from air_backend.errors import BucketsIgnored, GraphSplit
from air_fxpasses.tables import twin_of
from air_graph import place_of, source_of, warn_at
from air_graph.executors import Executor
from air_graph.pieces import LeftOut, compile_parts, cut
from air_streams import ScopeIgnored, note_scopes, restore_scopes

log = logging.getLogger(__name__)

Run = Callable[..., Any]
CompilePiece = Callable[[fx.GraphModule, list[Any], Sequence[int], str], Run]
"""Takes a piece, its example inputs, which of them keep their address, and its name."""

_told: Final[set[tuple[str, str | None]]] = set()
_STREAMS: Final = "air_streams"


def compile_in_pieces(
    gm: fx.GraphModule,
    apart: Mapping[fx.Node, LeftOut],
    example_inputs: Sequence[Any],
    static_inputs: Sequence[int],
    name: str,
    compile_piece: CompilePiece,
    see_eager: Callable[[fx.GraphModule, str], None],
    limit: int,
    numbers: Sequence[fx.Node] = (),
) -> air_aclgraph.PiecedExecutable:
    """The graph cut round the nodes of `apart`; operators of streams are left out, since no stream crosses a cut.

    Scopes of core limits and of attributes hold in each piece.

    What sizes alone decide runs once for each size, and up to `limit` bytes of it are kept. `numbers` are put on the
    device before the pieces run. `see_eager` may change a part that runs eagerly, before it is made.
    """
    _leave_out_streams(gm)
    by_size = air_aclgraph.decided_by_symbols(gm, apart)
    holders = gm.graph.find_nodes(op="placeholder")
    examples = {node.name: example for node, example in zip(holders, example_inputs, strict=True)}
    static = {holders[index].name for index in static_inputs} | {node.name for node in by_size}
    pieces: dict[str, Run] = {}
    once: dict[str, air_aclgraph.OncePerSize] = {}

    def compiled(part: fx.GraphModule, values: list[Any], part_name: str) -> Run:
        names = [str(node.target) for node in part.graph.find_nodes(op="placeholder")]
        inputs = [examples.get(one, value) for one, value in zip(names, values, strict=True)]
        keep = [index for index, one in enumerate(names) if one in static]
        restore_scopes(part)
        piece = pieces[part_name] = compile_piece(part, inputs, keep, f"{name}.{part_name}")
        return piece.spread() if isinstance(piece, air_aclgraph.Executable) else piece

    def eager(part: fx.GraphModule, values: list[Any], part_name: str) -> Run:
        see_eager(part, f"{name}.{part_name}")
        run: Run = air_aclgraph.run_eagerly(part).function
        if part_name in by_itself:
            run = once[part_name] = air_aclgraph.OncePerSize(run, limit)
        return run

    parted = cut(gm, apart, by_size, numbers)
    by_itself = {part.name for part in parted.parts if part.by_size}
    call, _ = compile_parts(parted, compiled, eager)
    left = tuple(each for node, each in apart.items() if node not in by_size)
    sized = [apart[node] for node in by_size]
    staged = [
        LeftOut(node.name, str(node.target), "a number of each call", place_of(node))
        for node in numbers
        if isinstance(node.meta["val"], torch.Tensor)
    ]
    return air_aclgraph.PiecedExecutable(name, call, pieces, left, sized, staged, once)


def splitter(
    gm: fx.GraphModule,
    ground: torch.device,
    compile_pieces: Callable[[Mapping[fx.Node, LeftOut]], air_aclgraph.PiecedExecutable],
) -> air_aclgraph.Splitter:
    """Cuts `gm` where the capture of what was compiled from it failed."""

    def split(
        node: fx.Node, error: air_aclgraph.errors.IllegalDuringCapture
    ) -> air_aclgraph.PiecedExecutable | None:
        called = air_graph.operator_of(node)
        operator = node.target if called is None else called[0]
        apart = air_aclgraph.uncapturable(gm, ground)
        if isinstance(operator, HigherOrderOperator) and any(each.target is operator for each in apart):
            return compile_pieces(apart)  # a `cond`, of which the device is known now to have none
        if not isinstance(operator, (OpOverload, HigherOrderOperator)):
            return None
        candidates = (operator, *_written_as(gm, operator, ground))
        # of other types the device may take an operator; a pass may have given it others than the graph has
        known = [air_aclgraph.types_given(node)] if isinstance(operator, OpOverload) else []
        for types, to_blame in itertools.product((*known, None), candidates):
            air_aclgraph.register_uncapturable(to_blame, f"its capture failed: {error.what}", types)
            if apart := air_aclgraph.uncapturable(gm, ground):
                return compile_pieces(apart)
            air_aclgraph.unregister_uncapturable(to_blame, types)
        return None  # an operator that a pass put there, of more than one

    return split


def _written_as(gm: fx.GraphModule, operator: Any, ground: torch.device) -> list[OpOverload]:
    """The operators of a graph that passes may have given the form `operator`, in place or with memory for results."""
    listed = dict.fromkeys(node.target for node in gm.graph.nodes if isinstance(node.target, OpOverload))
    return [
        each
        for each in listed
        if ((twin := twin_of(each)) is not None and twin.inplace is operator)
        or ((form := air_graph.out_form_of(each, ground.type)) is not None and form.out is operator)
    ]


def warn_of_pieces(mode: str, name: str, run: Executor, node: fx.Node | None) -> None:
    """Warns, once for each operator and line, that a graph runs in pieces, at the line of `node`."""
    left = [(each.target, each.reason, each.source) for each in run.eager]
    fresh = [each for each in left if (each[0], each[2]) not in _told]
    if fresh:
        _told.update((operator, place) for operator, _, place in fresh)
        warn_at(source_of(node), GraphSplit(mode, name, len(run.pieces), tuple(fresh)), "air_backend")


def warn_of_buckets(name: str, apart: Mapping[fx.Node, LeftOut]) -> None:
    """Warns that buckets have no effect on a graph that runs in pieces, at the line of the first cut."""
    node, first = next(iter(apart.items()))
    warn_at(source_of(node), BucketsIgnored(name, first.target, first.reason, first.source), "air_backend")


def _leave_out_streams(gm: fx.GraphModule) -> None:
    """Everything on one stream, in the order of the program, and said so; other scopes are noted at their nodes."""
    switches = gm.graph.find_nodes(op="call_function", target=torch.ops.air_streams.stream_enter.default)
    if (first := next((node for node in switches if node.args[0] != "default"), None)) is not None:
        text = (
            "stream scopes are ignored: this graph is cut, and runs on one stream in the order of the program"
        )
        warn_at(source_of(first), ScopeIgnored(f"{text}\n  at {place_of(first)}"), "air_backend")
    note_scopes(gm, streams=False)
    for node in reversed(list(gm.graph.nodes)):
        target = node.target
        if isinstance(target, OpOverload) and target.namespace == _STREAMS and not node.users:
            gm.graph.erase_node(node)
