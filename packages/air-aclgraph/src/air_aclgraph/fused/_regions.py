"""Finds the regions of a graph that Inductor compiles, and puts one call in the place of each.

    mul, add, view, sum, sort, relu, exp   ->   region_0(mul, add, view, sum), sort, region_1(relu, exp)

A region is a run of nodes in the order of the graph, so that nothing moves across what waits or marks.  Views of its
results are taken again after it: they share memory as the graph says.  What it writes are arguments of the graph, each
of which reaches it once (`_runs`).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from air_aclgraph._uncapturable import why_illegal, why_registered
from air_aclgraph.fused._region import Ground, Region
from air_aclgraph.fused._runs import Run, is_free, is_write, written_by
from air_graph import functional_of, keeps_gaps, owner_of, writes
from air_streams import STREAM_OPS

aten = torch.ops.aten

_LIBRARY: Final = frozenset(
    {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.convolution.default}
)
"""Operators that Inductor calls as they are, beside the kernels that it generates."""
_DTYPES: Final = frozenset(
    {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool,
     torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}
)  # fmt: skip


@dataclass
class Fused:
    """The regions of one graph, and why the other operators stayed as they are."""

    regions: list[Region] = field(default_factory=list)
    stayed: Counter[tuple[str, str]] = field(default_factory=Counter)

    def explain(self) -> dict[str, Any]:
        """The regions with their kernels, and what stayed ATen with the reason."""
        return {
            "regions": [region.explain() for region in self.regions],
            "stayed ATen": [
                {"operator": name, "times": times, "reason": why}
                for (name, why), times in self.stayed.items()
            ],
        }


def fuse(gm: GraphModule, device: torch.device, ground: Ground) -> Fused:
    """Puts regions in the place of the operators that Inductor compiles"""
    _gather_parts(gm.graph)
    judge = _Judge(device)
    while True:
        fused = Fused()
        runs = _runs_of(gm, judge, fused)
        found = {node for run in runs for node in _results(run) if keeps_gaps(node.target)}
        if not found:
            break
        judge.seen_with_gaps |= found
    for run in runs:
        if _is_worth_it(run):
            name = f"region_{len(fused.regions)}"
            fused.regions.append(_replaced(gm, run, name, ground))
        else:
            for node in run:
                if not is_free(node):
                    fused.stayed[str(node.target), "alone: there is nothing to fuse it with"] += 1
    if fused.regions:
        gm.graph.lint()
        gm.recompile()
    return fused


def _runs_of(gm: GraphModule, judge: _Judge, fused: Fused) -> list[list[Node]]:
    """The nodes that Inductor may have, cut where something else stands between them; says what else there is."""
    runs = [Run()]
    for node in gm.graph.nodes:
        if node.op == "call_function" and (reason := judge.why_not(node)) is None:
            if not runs[-1].takes(node):
                runs.append(Run())
            runs[-1].add(node)
            continue
        if node.op == "call_function" and not _is_silent(node):
            if node.target not in STREAM_OPS:
                fused.stayed[str(node.target), reason or ""] += 1
        elif not any(source in runs[-1].inside for source in node.all_input_nodes) and node.op != "output":
            continue  # it can be had before the region
        runs.append(Run())
    return [run.trimmed() for run in runs]


class _Judge:
    """Says of a node why Inductor must not have it."""

    def __init__(self, device: torch.device) -> None:
        from torch._inductor.decomposition import select_decomp_table
        from torch._inductor.lowering import fallbacks, lowerings

        self._device = device
        self._lowered = lowerings
        self._fallbacks = fallbacks
        self._decomposed = select_decomp_table()
        self.seen_with_gaps: set[Node] = set()
        """Copies with what lies round their elements, which is seen outside the region that they would be in."""

    def why_not(self, node: Node) -> str | None:
        """The reason, or None where the node may be part of a region."""
        target = node.target
        if target is operator.getitem:
            source: Any = node.args[0]
            return self.why_not(source) if isinstance(source.target, OpOverload) else "no operator"
        if not isinstance(target, OpOverload):
            return "no operator of ATen"
        if target.namespace not in ("aten", "prims"):
            return f"an operator of {target.namespace}"
        if writes(node) and not self._may_write(node):
            return "it writes to memory that is there before"
        if "as_strided" in target._schema.name:
            return "it counts from the start of the memory behind a tensor"
        if torch.Tag.nondeterministic_seeded in target.tags:
            return "Inductor would draw other random numbers"
        if node in self.seen_with_gaps:
            return "its result lies in memory like its argument's, gaps and all"
        if (registered := why_registered(node)) is not None:
            return registered[1]
        args: tuple[Any, ...] = map_arg(node.args, lambda n: n.meta.get("val"))
        why = why_illegal(target, args, node.kwargs)
        return why or self._not_served(node, target)

    def _may_write(self, node: Node) -> bool:
        """Whether a node writes an argument of the graph, in a way that Inductor has without the write, too."""
        written = written_by(node)
        return written is not None and owner_of(written).op == "placeholder" and Run().takes(node)

    def _not_served(self, node: Node, target: OpOverload) -> str | None:
        target = functional_of(target) or target
        if not (is_free(node) or target in self._decomposed or target in self._lowered):
            return "Inductor has no kernel for it"
        if target in self._fallbacks and not target.is_view:
            return "Inductor has no kernel for it"
        if not any(isinstance(value, Tensor) for value in tree_leaves(node.meta.get("val"))):
            return "a number of the host"
        for one in (node, *node.all_input_nodes):
            for value in tree_leaves(one.meta.get("val")):
                if isinstance(value, Tensor):
                    if value.device.type != self._device.type or value.layout is not torch.strided:
                        return "a tensor of another device or layout"
                    if value.dtype not in _DTYPES:
                        return f"a tensor of {value.dtype}"
                elif not isinstance(value, (int, torch.SymInt)):
                    return f"a value of {type(value).__name__}"
        return None


def _is_silent(node: Node) -> bool:
    """Whether a node that is no operator on tensors can be had before a region that it does not need."""
    if node.target is operator.getitem:
        return True
    return all(
        isinstance(value, (int, torch.SymInt)) for value in tree_leaves(node.meta.get("val")) or [None]
    )


def _gather_parts(graph: Graph) -> None:
    """Moves the parts of each result that is a list right behind it."""
    for node in list(graph.nodes):
        if isinstance(node.meta.get("val"), (list, tuple)):
            at = node
            for user in list(node.users):
                if user.target is operator.getitem:
                    at.append(user)
                    at = user


def _is_worth_it(run: Sequence[Node]) -> bool:
    computed = [node for node in run if not is_free(node) and node.target is not operator.getitem]
    return len(computed) > 1 and any(node.target not in _LIBRARY for node in computed)


def _replaced(gm: GraphModule, run: Sequence[Node], name: str, ground: Ground) -> Region:
    """One call in the place of the nodes of `run`."""
    inside = set(run)
    inputs = list(dict.fromkeys(n for node in run for n in node.all_input_nodes if n not in inside))
    escaping, views, results = _seen(run), _views(run), _results(run)
    region = Region(name, _apart(gm, run, inputs, results), ground)
    graph = gm.graph
    with graph.inserting_after(run[-1]):
        one = graph.call_function(region, tuple(inputs))
    last = next(node for node in reversed(run) if not is_free(node))
    one.meta = {**last.meta, "val": tuple(node.meta["val"] for node in results)}
    after: dict[Node, Node] = {}
    at = one
    for index, node in enumerate(results):
        with graph.inserting_after(at):
            at = after[node] = graph.call_function(operator.getitem, (one, index))
        at.meta = dict(node.meta)
    for node in views:
        with graph.inserting_after(at):
            at = after[node] = graph.node_copy(
                node, lambda source: after.get(_itself(source), _itself(source))
            )
    for node in escaping:
        new = after.get(_itself(node), _itself(node))
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user not in inside)
    for node in reversed(run):
        graph.erase_node(node)
    return region


def _seen(run: Sequence[Node]) -> list[Node]:
    """The nodes of a run that nodes outside it use."""
    inside = set(run)
    return [node for node in run if any(user not in inside for user in node.users)]


def _views(run: Sequence[Node]) -> list[Node]:
    """The views that are taken again behind a region, with the views they are taken of, in the order of the run."""
    inside = set(run)
    waiting = [view for node in _seen(run) if is_free(view := _itself(node))]
    found = set(waiting) & inside
    while waiting:
        for source in map(_itself, waiting.pop().all_input_nodes):
            if source in inside and is_free(source) and source not in found:
                found.add(source)
                waiting.append(source)
    return [node for node in run if node in found]


def _results(run: Sequence[Node]) -> list[Node]:
    """What a region of these nodes gives back: what is used behind it, or looked at by views that are."""
    behind = {_itself(source) for view in _views(run) for source in view.all_input_nodes}
    wanted = {*_seen(run), *behind}
    return [node for node in run if node in wanted and not is_free(node) and not is_write(node)]


def _itself(node: Node) -> Node:
    """What a write gives back is the memory that it wrote."""
    while is_write(node):
        node = node.all_input_nodes[0]
    return node


def _apart(
    gm: GraphModule, run: Sequence[Node], inputs: Sequence[Node], results: Sequence[Node]
) -> GraphModule:
    """The nodes of a run as a graph of their own."""
    graph = Graph()
    copies = {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
    for node in run:
        copies[node] = graph.node_copy(node, lambda source: copies[source])
    graph.output(tuple(copies[node] for node in results))
    graph.eliminate_dead_code()
    return GraphModule(torch.nn.Module(), graph)
