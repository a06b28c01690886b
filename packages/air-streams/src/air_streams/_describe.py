"""A plan as text that does not depend on how its author named things.

Streams are `entry`, `stream1`, `stream2`, … and events `event0`, `event1`, … in order of appearance; work is
named by operator. Two programs with the same text make an executor do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING

from torch.fx import Node

from air_streams._steps import EventId, LimitCores, Record, RecordStream, RestoreCores, Step, StreamId, Wait

if TYPE_CHECKING:
    from air_streams._plan import StreamPlan


class _Names:
    def __init__(self) -> None:
        self.streams: dict[StreamId, str] = {}
        self.events: dict[tuple[EventId, int], str] = {}
        self.values: dict[Node, str] = {}

    def stream(self, stream: StreamId) -> str:
        if stream.is_entry:
            return "entry"
        return self.streams.setdefault(stream, f"stream{len(self.streams) + 1}")

    def event(self, event: EventId, version: int) -> str:
        return self.events.setdefault((event, version), f"event{len(self.events)}")

    def value(self, node: Node) -> str:
        return self.values.setdefault(node, f"%{len(self.values)}")

    def step(self, step: Step) -> str:
        where = self.stream(step.stream)
        match step:
            case Record():
                return f"{where}: record {self.event(step.event, step.version)}"
            case Wait():
                return f"{where}: wait {self.event(step.event, step.version)}"
            case RecordStream():
                return f"{where}: keep {self.value(step.tensor)}"
            case LimitCores():
                return f"{where}: limit cores {step.aicore} {step.vectorcore}"
            case RestoreCores():
                return f"{where}: restore cores"


def _lines(plan: StreamPlan, is_work: Callable[[Node], bool], values: Container[Node]) -> Iterator[str]:
    names = _Names()
    for node in plan.nodes:
        actions = plan.actions(node)
        if node.op == "placeholder" and node in values:
            names.value(node)
        yield from (names.step(step) for step in actions.before)
        if actions.runs and is_work(node):
            given = ", ".join(
                names.value(argument) for argument in node.all_input_nodes if argument in values
            )
            yield f"{names.stream(actions.stream)}: {names.value(node)} = {node.target}({given})"
        yield from (names.step(step) for step in actions.after)


def describe(plan: StreamPlan, is_work: Callable[[Node], bool], values: Container[Node]) -> str:
    """The plan as text, one line per step."""
    return "\n".join(_lines(plan, is_work, values))
