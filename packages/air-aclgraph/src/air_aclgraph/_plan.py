"""What one captured key of a graph will need, computed before the capture.

Streams and events come from the stream plan, tasks from the graph, bytes from the sizes of its values: the
peak of what is alive at once, in the order of the nodes.  Sizes that are symbols count with their hints.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from air_aclgraph._runtime import Limits
from air_aclgraph._straight import last_uses
from air_aclgraph.errors import ResourcesExhausted
from air_graph import bytes_of, effects_of

if TYPE_CHECKING:
    from air_streams import StreamPlan


@dataclass(frozen=True)
class ResourcePlan:
    """Needs of one captured key."""

    streams: int
    events: int
    tasks: int
    pool_bytes: int

    def shortage(self, limits: Limits, captured: int) -> tuple[str, int, int] | None:
        """The first resource that one more key would exhaust: its name, the need, what there is."""
        rows = (
            ("streams", self.streams * (captured + 1), limits.streams),
            ("events", self.events * (captured + 1), limits.events),
            ("tasks", self.tasks, limits.tasks),
        )
        return next(((name, need, has) for name, need, has in rows if has is not None and need > has), None)


def plan_resources(gm: GraphModule, plan: StreamPlan | None, updates: int) -> ResourcePlan:
    """Adds up what a capture of `gm` needs."""
    nodes = list(gm.graph.nodes)
    tasks = sum(map(_is_task, nodes))
    streams, events = 1, updates
    if plan is not None:
        streams = max(1, len(plan.resources.streams))
        events += len(plan.resources.events)
    return ResourcePlan(streams, events, tasks, peak_bytes(nodes))


def refuse_shortage(
    plan: ResourcePlan, limits: Limits, captured: int, graph: str, key: tuple[Any, ...]
) -> None:
    """Raises before a capture that the device cannot hold."""
    short = plan.shortage(limits, captured)
    if short is None:
        return
    name, need, has = short
    raise ResourcesExhausted(
        f"{graph} would be captured {captured + 1} times and then need {need} {name}; the device has {has}",
        advice="lower debug.aclgraph.static_capture_size_limit, pad inputs to fewer sizes, or use fewer streams "
        "inside the graph",
        graph=graph,
        key=key,
        resource=name,
        needed=need,
        available=has,
    )


def _is_task(node: Node) -> bool:
    target = node.target
    if node.op != "call_function" or not isinstance(target, OpOverload):
        return node.op in ("call_module", "call_method")
    return not target.is_view and target.namespace not in ("air_streams", "prim")


def _nbytes(node: Node) -> int:
    """Bytes of the new memory a node makes."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, OpOverload) or target.is_view:
        return 0
    if effects_of(target).writes:
        return 0
    return sum(bytes_of(value) for value in tree_leaves(node.meta.get("val")) if isinstance(value, Tensor))


def peak_bytes(nodes: Sequence[Node]) -> int:
    """The most memory alive at once; a view keeps what it looks at alive."""
    bases: dict[Node, Node] = {}
    dead = last_uses(nodes)
    users: dict[Node, int] = {}
    for node in nodes:
        base = node
        target = node.target
        if (
            isinstance(target, OpOverload)
            and (target.is_view or effects_of(target).writes)
            and node.all_input_nodes
        ) or target is operator.getitem:
            base = bases.get(node.all_input_nodes[0], node)
        bases[node] = base
        users[base] = users.get(base, 0) + 1
    alive = peak = 0
    for node in nodes:
        alive += _nbytes(node)
        peak = max(peak, alive)
        for gone in dead.get(node, ()):
            base = bases[gone]
            users[base] -= 1
            if not users[base]:
                alive -= _nbytes(base)
    return peak
