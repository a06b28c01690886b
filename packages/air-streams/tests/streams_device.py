"""A device for tests: streams that run in any order the plan allows, and an allocator that reuses blocks at once.

`run` does what the README tells an executor to do. The host goes through the nodes, allocates, frees and fills
one queue per stream; then the queues run in a random order. A block goes back to its stream's pool as soon as
the host drops the value, unless another stream was recorded on it, so a missing record_stream shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from air_streams import EventId, Record, RecordStream, StreamId, StreamPlan, Wait

Task = Callable[[], None]


@dataclass
class Device:
    """Blocks of equal size, a pool per stream, and the queues."""

    size: int
    queues: dict[StreamId, list[tuple[str, Any]]] = field(default_factory=dict)
    pools: dict[StreamId, list[torch.Tensor]] = field(default_factory=dict)

    def allocate(self, stream: StreamId) -> torch.Tensor:
        pool = self.pools.setdefault(stream, [])
        return pool.pop() if pool else torch.full((self.size,), -987_654_321)

    def push(self, stream: StreamId, kind: str, what: Any) -> None:
        self.queues.setdefault(stream, []).append((kind, what))

    def drain(self, source: random.Random) -> None:
        """Runs everything, choosing at random among the streams that may go on."""
        done: set[tuple[EventId, int]] = set()
        places = dict.fromkeys(self.queues, 0)
        while True:
            ready = [stream for stream, place in places.items() if self._may_run(stream, place, done)]
            if not ready:
                break
            stream = source.choice(ready)
            kind, what = self.queues[stream][places[stream]]
            places[stream] += 1
            if kind == "work":
                what()
            elif kind == "record":
                done.add(what)
        assert all(places[stream] == len(queue) for stream, queue in self.queues.items()), "the streams hang"

    def _may_run(self, stream: StreamId, place: int, done: set[tuple[EventId, int]]) -> bool:
        queue = self.queues[stream]
        return place < len(queue) and (queue[place][0] != "wait" or queue[place][1] in done)


@dataclass
class _Value:
    tensor: torch.Tensor
    block: torch.Tensor | None
    owner: StreamId
    shared: bool = False


class _Run:
    def __init__(self, plan: StreamPlan, inputs: Sequence[torch.Tensor]) -> None:
        self.plan = plan
        self.device = Device(inputs[0].numel())
        self.values: dict[Node, _Value] = {}
        self.inputs = iter([value.clone() for value in inputs])
        self.order = {node: place for place, node in enumerate(plan.nodes)}
        self.last = {argument: node for node in plan.nodes for argument in node.all_input_nodes}
        self.outputs: list[Node] = []

    def issue(self) -> None:
        for node in self.plan.nodes:
            actions = self.plan.actions(node)
            self._steps(actions.before)
            if node.op == "placeholder":
                self.values[node] = _Value(next(self.inputs), None, self.plan.entry)
            elif node.op == "output":
                self.outputs = list(node.all_input_nodes)
            elif actions.runs:
                self._work(node, actions.stream)
            self._steps(actions.after)
            self._free(node)

    def _steps(self, steps: Sequence[object]) -> None:
        for step in steps:
            if isinstance(step, Record):
                self.device.push(step.stream, "record", (step.event, step.version))
            elif isinstance(step, Wait):
                self.device.push(step.stream, "wait", (step.event, step.version))
            elif isinstance(step, RecordStream):
                value = self.values[step.tensor]
                value.shared = value.shared or step.stream != value.owner

    def _work(self, node: Node, stream: StreamId) -> None:
        op = node.target
        assert isinstance(op, torch._ops.OpOverload)
        args, kwargs = map_arg((node.args, node.kwargs), lambda arg: self.values[arg].tensor)
        if op._schema.is_mutable:
            target = node.args[0]
            assert isinstance(target, Node)
            self.device.push(stream, "work", lambda: op(*args, **kwargs))
            self.values[node] = self.values[target]
            return
        block = self.device.allocate(stream)
        self.device.push(stream, "work", lambda: block.copy_(op(*args, **kwargs)))
        self.values[node] = _Value(block, block, stream)

    def _free(self, node: Node) -> None:
        for argument in {node, *node.all_input_nodes}:
            value = self.values.get(argument)
            if value is None or value.block is None or self._is_alive(value, node):
                continue
            if not value.shared:
                self.device.pools.setdefault(value.owner, []).append(value.block)
            value.block = None

    def _is_alive(self, value: _Value, now: Node) -> bool:
        holders = [node for node, held in self.values.items() if held is value]
        return any(self.order[self.last.get(node, node)] > self.order[now] for node in holders)


def run(plan: StreamPlan, inputs: Sequence[torch.Tensor], source: random.Random) -> list[torch.Tensor]:
    """The outputs and the inputs afterwards, of one random schedule."""
    once = _Run(plan, inputs)
    held = [node for node in plan.nodes if node.op == "placeholder"]
    once.issue()
    once.device.drain(source)
    return [once.values[node].tensor.clone() for node in (*once.outputs, *held)]


def run_eagerly(graph: Graph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same, one node after the other, streams or not."""
    values: dict[Node, Any] = {}
    given = iter([value.clone() for value in inputs])
    results: list[torch.Tensor] = []
    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "output":
            results = [values[result] for result in node.all_input_nodes]
        elif getattr(node.target, "namespace", "") != "air_streams":
            args, kwargs = map_arg((node.args, node.kwargs), lambda arg: values[arg])
            values[node] = node.target(*args, **kwargs)
    return [*results, *(values[node] for node in graph.nodes if node.op == "placeholder")]
