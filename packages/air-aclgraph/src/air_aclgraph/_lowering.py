"""Lowers a stream plan: what the straight function does around each node.

    plan                                   straight function
    mul on stream '1', after wait(e)  ->   enter(stream 1); wait(e); v4 = mul(...); exit()

The plan has decided forks, joins and events; here they become calls of the runtime.  Streams come from the
process-wide registry, so that the same tag is the same stream in every graph. What a bisection leaves out runs on
the entry stream, in the order of the program.

A captured graph drops a value after its last use, earlier than the program, whose variables live until the function
returns. So a block that another stream may still use then is kept for it, also where the program does not ask for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from torch.fx import Node

import air_streams
from air_aclgraph._runtime import Runtime
from air_aclgraph._straight import Lowering, Step
from air_aclgraph.errors import Unsupported
from air_fxpasses import is_left_out
from air_graph import source_of as where
from air_graph import warn_at

_ops: Final = torch.ops.air_streams

#: The attribute by which a scope of `deterministic` is known.
DETERMINISTIC: Final = "_deterministic_level"


class PlanLowering(Lowering):
    """The steps of a `StreamPlan` as calls of a runtime."""

    def __init__(self, plan: air_streams.StreamPlan, runtime: Runtime, *, strict: bool = True) -> None:
        self._plan = plan
        self._runtime = runtime
        self._strict = strict
        self._current = plan.entry
        self._events: dict[Any, Any] = {}
        uses = plan.resources.streams
        self._priority = {use.stream: use.priority for use in uses}
        self._asked = {use.stream: use.asked_by for use in uses}
        acting = (DETERMINISTIC,) if runtime.abilities.deterministic_level else ()
        plan.warn_of_ignored_scopes(acting)
        self._scopes: list[bool] = []
        self._left_out = frozenset(s for s in self._priority if not s.is_entry and self._is_left_out(s))
        self._kept = plan.blocks_to_keep

    def _is_left_out(self, stream: air_streams.StreamId) -> bool:
        def describe() -> str:
            nodes = [n for n in self._plan.nodes if self._plan.stream_of(n) == stream and self.runs(n)]
            first = f", first used at {where(nodes[0])}" if nodes and where(nodes[0]) else ""
            return f"stream {stream.tag!r} with {len(nodes)} operators{first}"

        return is_left_out("streams", describe)

    def _effective(self, stream: air_streams.StreamId) -> air_streams.StreamId:
        return self._plan.entry if stream in self._left_out else stream

    def before(self, node: Node) -> Sequence[Step]:
        try:
            return self._steps_before(node)
        except Unsupported as refused:
            refused.where = refused.where or where(node)
            raise

    def _steps_before(self, node: Node) -> list[Step]:
        actions = self._plan.actions(node)
        steps = [] if node.op == "get_attr" else self._switch(self._effective(actions.stream))
        for step in actions.before:
            steps.extend(self._lower(step))
        steps.extend(self._determinism(node))
        if node.op == "output":
            steps.extend(self._switch(self._plan.entry))
        return steps

    def runs(self, node: Node) -> bool:
        return self._plan.actions(node).runs

    def after(self, node: Node) -> Sequence[Step]:
        if node.op == "output":
            return ()
        steps = (*self._plan.actions(node).after, *self._kept.get(node, ()))
        return [call for step in steps for call in self._lower(step)]

    def _determinism(self, node: Node) -> list[Step]:
        """Scopes of `deterministic` set the level with which the operators inside are captured."""
        if node.target is _ops.attributes_enter.default:
            names: Any = node.args[0]
            values: Any = node.args[1]
            acts = DETERMINISTIC in names and self._runtime.abilities.deterministic_level
            self._scopes.append(acts)
            if acts:
                level = int(values[names.index(DETERMINISTIC)])
                return [Step(partial(self._runtime.enter_determinism, level))]
        elif node.target is _ops.attributes_exit.default and self._scopes.pop():
            return [Step(self._runtime.exit_determinism)]
        return []

    def _switch(self, stream: air_streams.StreamId) -> list[Step]:
        """Leaves the current side stream and enters another."""
        steps = []
        if stream != self._current:
            if not self._current.is_entry:
                steps.append(Step(self._runtime.exit_stream))
            if not stream.is_entry:
                steps.append(self._enter(stream))
            self._current = stream
        return steps

    def _enter(self, stream: air_streams.StreamId) -> Step:
        if stream.is_entry:
            return Step(partial(self._runtime.enter_stream, None))
        return Step(partial(self._runtime.enter_stream, self._stream(stream)))

    def _stream(self, stream: air_streams.StreamId) -> Any:
        """The stream behind a tag; where its priority cannot be had, with the device's and a warning, or an error."""
        try:
            return self._runtime.stream(stream.tag, self._priority.get(stream, 0))
        except (Unsupported, air_streams.errors.StreamPriorityError) as error:
            if self._strict or not self._priority.pop(stream, 0):
                raise
            told = air_streams.ScopeIgnored(f"the priority is ignored: {error}")
            warn_at(where(self._asked.get(stream)), told, "air_aclgraph")
            return self._runtime.stream(stream.tag, 0)

    def _on(self, stream: air_streams.StreamId, call: Step) -> list[Step]:
        if stream == self._current:
            return [call]
        return [self._enter(stream), call, Step(self._runtime.exit_stream)]

    def _lower(self, step: air_streams.Step) -> list[Step]:
        runtime = self._runtime
        on = self._effective(step.stream)
        if isinstance(step, air_streams.Record):
            return self._on(on, Step(partial(runtime.record_event, self._event(step.event))))
        if isinstance(step, air_streams.Wait):
            return self._on(on, Step(partial(runtime.wait_event, self._event(step.event))))
        if isinstance(step, air_streams.RecordStream):
            stream = None if on.is_entry else runtime.stream(on.tag, 0)
            return [Step(partial(runtime.use_on_stream, stream=stream), (step.tensor,))]
        if not runtime.abilities.core_limits:
            raise Unsupported(
                f"limit_core_num on the {runtime.name} runtime: only Ascend NPUs divide their cores",
                advice="remove limit_core_num for this device",
                option="limit_core_num",
                runtime=runtime.name,
            )
        if isinstance(step, air_streams.LimitCores):
            return self._on(on, Step(partial(runtime.limit_cores, step.aicore, step.vectorcore)))
        return self._on(on, Step(runtime.restore_cores))

    def _event(self, event: air_streams.EventId) -> Any:
        if event not in self._events:
            self._events[event] = self._runtime.new_event()
        return self._events[event]
