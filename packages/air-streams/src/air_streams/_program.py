"""A graph read as a multi-stream program: on which stream each node is, what it records and what it waits for.

The host issues nodes in graph order. A stream runs its work in the order of issue. A wait is for the latest
record of its event *before it in graph order*, as on a device; a wait with no such record waits for nothing
and is reported by the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, GraphModule, Node

from air_graph import bodies_of, calling_line, has_line, named_arguments, place_of
from air_streams import _library
from air_streams._registry import note_tag
from air_streams._steps import ENTRY, EventId, LimitCores, RecordStream, RestoreCores, Step, StreamId
from air_streams._storages import Memory, Storage, read_memory
from air_streams.errors import (
    InvalidArgument,
    NativeStreamError,
    StreamPriorityError,
    UnbalancedScope,
    Unsupported,
)


@dataclass(frozen=True, slots=True)
class Dependency:
    """The node whose completion a wait waits for, and the event that carries it."""

    source: Node
    event: EventId
    version: int


@dataclass
class Program:
    """The reading of one graph; see the module."""

    graph: Graph
    memory: Memory
    order: list[Node] = field(default_factory=list)
    index: dict[Node, int] = field(default_factory=dict)
    stream: dict[Node, StreamId] = field(default_factory=dict)
    streams: list[StreamId] = field(default_factory=lambda: [ENTRY])
    priority: dict[StreamId, tuple[int, Node]] = field(default_factory=dict)
    """The priority that a stream shall have, and the scope that asks for it."""
    records: dict[Node, tuple[EventId, int]] = field(default_factory=dict)
    waits: dict[Node, tuple[Dependency, ...]] = field(default_factory=dict)
    unmet: dict[Node, EventId] = field(default_factory=dict)
    """The waits whose event has no record before them."""
    waits_for_given: bool = False
    """Whether an input is waited for that nothing in the graph has written."""
    notes: dict[Node, Step] = field(default_factory=dict)
    heads: set[Node] = field(default_factory=set)
    tails: set[Node] = field(default_factory=set)

    def is_work(self, node: Node) -> bool:
        """Whether the device has something to do at this node, other than recording and waiting."""
        return node in self.memory.accesses and bool(self.memory.accesses[node])

    def is_point(self, node: Node) -> bool:
        """Whether the node takes a place in its stream: work, a record or a wait."""
        return node in self.records or node in self.waits or self.is_work(node)

    def fork_node(self) -> Node | None:
        """The node before which all other streams leave the entry stream."""
        first = (node for node in self.order if node.op not in ("placeholder", "get_attr"))
        return next((node for node in first if node not in self.heads), None)

    def join_node(self) -> Node:
        """The node before which the entry stream must have joined all others."""
        return next(node for node in self.order if node.op == "output" or node in self.tails)


_PROLOGUE: Final = torch.ops.aten.clone.default
_EPILOGUE: Final = frozenset({torch.ops.aten.copy_.default})


def _heads(graph: Graph) -> set[Node]:
    """AOTAutograd's copies of inputs that a training step writes, at the begin of the graph: before the fork."""
    heads: set[Node] = set()
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            continue
        source = node.args[0] if node.target is _PROLOGUE and not has_line(node) else None
        if not (isinstance(source, Node) and source.op == "placeholder"):
            break
        heads.add(node)
    return heads


def _tails(graph: Graph, memory: Memory) -> set[Node]:
    """AOTAutograd's copies into mutated inputs at the end of the graph: they run after the join.

    Views of results may come after them.
    """
    tails: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or (not memory.accesses.get(node) and node.target not in _library.STREAM_OPS):
            continue
        target = node.args[0] if node.target in _EPILOGUE else None
        if not (isinstance(target, Node) and target.op == "placeholder"):
            break
        tails.add(node)
    return tails


@dataclass(frozen=True)
class _Limit:
    """An open block of `limit_core_num`: the stream on which it was opened, and whether it means that stream alone."""

    stream: StreamId
    aicore: int
    vectorcore: int
    node: Node
    alone: bool


class _Reader:
    def __init__(self, graph: Graph) -> None:
        memory = read_memory(graph)
        self.program = Program(graph, memory, heads=_heads(graph), tails=_tails(graph, memory))
        self.scopes: list[tuple[StreamId, Node]] = []
        self.limits: list[_Limit] = []
        self.last_record: dict[str, tuple[Node, int]] = {}
        self.counts: dict[str, int] = {}
        self.writers: dict[Storage, Node] = {}
        self.used = {ENTRY}

    @property
    def current(self) -> StreamId:
        return self.scopes[-1][0] if self.scopes else ENTRY

    def read(self) -> Program:
        for index, node in enumerate(self.program.graph.nodes):
            self.program.order.append(node)
            self.program.index[node] = index
            self.program.stream[node] = self.current
            self._node(node)
        scopes = [node for _, node in self.scopes]
        limits = [limit.node for limit in self.limits]
        for opened, kind in ((scopes, "npu_stream_switch"), (limits, "limit_core_num")):
            if opened:
                raise UnbalancedScope(
                    f"the graph ends inside a `with {kind}` block",
                    where=self._line_of(opened[-1]),
                    advice="keep each block in one graph: remove the graph break inside it (try fullgraph=True)",
                )
        return self.program

    def _line_of(self, opening: Node) -> str:
        """The line of a block's opening. After a graph break Dynamo compiles the opening by itself: then the line of
        what follows in the graph, or the line that is running, is the user's."""
        later = self.program.order[self.program.index[opening] :]
        named = next((node for node in later if has_line(node)), None)
        return place_of(named) if named is not None else calling_line() or place_of(opening)

    def _node(self, node: Node) -> None:
        handler = _HANDLERS.get(node.target) if node.op == "call_function" else None
        if handler is not None:
            handler(self, node, _arguments(node))
        elif node.op == "call_function" and _is_native(node.target):
            raise NativeStreamError(
                f"the graph has a native stream call, {node.target}, that was not normalised",
                where=place_of(node),
                advice="call air_streams.normalize(gm) on the Dynamo graph before AOTAutograd",
            )
        elif isinstance(node.target, HigherOrderOperator) and _has_inner_streams(node):
            raise Unsupported(
                f"the body of {node.target} has stream code of its own",
                where=place_of(node),
                advice="put the whole operator into one stream scope, and no scope or event inside its body",
            )
        if self.program.is_work(node):
            self._note_stream(self.current)
            for access in self.program.memory.accesses[node]:
                if access.writes:
                    self.writers[access.storage] = node

    def _note_stream(self, stream: StreamId) -> None:
        if stream not in self.used:
            self.used.add(stream)
            note_tag(stream.tag)
            self.program.streams.append(stream)

    def enter(self, node: Node, given: dict[str, Any]) -> None:
        stream = StreamId(given["tag"])
        priority = int(given["priority"])
        known, _ = self.program.priority.get(stream, (0, node))
        if priority and known and priority != known:
            raise StreamPriorityError(
                f"{stream} is switched to with priority {known} and with priority {priority} in one graph",
                where=place_of(node),
                advice="use one priority per tag, or another tag",
            )
        if priority and stream.is_entry:
            raise StreamPriorityError(
                f"the entry stream exists already: its priority cannot become {priority}",
                where=place_of(node),
                advice="remove stream_priority, or use a tag of your own",
            )
        if priority:
            self.program.priority.setdefault(stream, (priority, node))
        self.scopes.append((stream, node))
        self.program.stream[node] = stream
        if (limit := self._limit_on(stream)) is not None:
            self.program.notes[node] = LimitCores(stream, limit.aicore, limit.vectorcore)

    def _limit_on(self, stream: StreamId) -> _Limit | None:
        """The innermost limit that holds on a stream which is switched to."""
        found = (limit for limit in reversed(self.limits) if not limit.alone or limit.stream == stream)
        return next(found, None)

    def exit(self, node: Node, given: dict[str, Any]) -> None:
        if not self.scopes or self.scopes[-1][0].tag != given["tag"]:
            raise UnbalancedScope(
                f"stream scope '{given['tag']}' is left, but the innermost open one is on the {self.current}",
                where=place_of(node),
                advice="use `with npu_stream_switch(...)`, which nests by itself",
            )
        if self.limits and not self.limits[-1].alone and self._opened_inside(self.limits[-1].node):
            raise UnbalancedScope(
                "a stream scope is left while a core limit set inside it is still open",
                where=place_of(node),
                advice="close `limit_core_num` before the block of `npu_stream_switch`",
            )
        stream, entered = self.scopes.pop()
        if entered in self.program.notes:
            self.program.notes[node] = RestoreCores(stream)

    def _opened_inside(self, limit: Node) -> bool:
        return self.program.index[limit] > self.program.index[self.scopes[-1][1]]

    def event_record(self, node: Node, given: dict[str, Any]) -> None:
        self._record(node, EventId(given["event"]))

    def _record(self, node: Node, event: EventId) -> None:
        version = self.counts.get(event.name, 0)
        self.counts[event.name] = version + 1
        self.last_record[event.name] = (node, version)
        self.program.records[node] = (event, version)
        self._note_stream(self.current)

    def event_wait(self, node: Node, given: dict[str, Any]) -> None:
        event = EventId(given["event"])
        found = self.last_record.get(event.name)
        self._note_stream(self.current)
        if found is None:
            self.program.unmet[node] = event
            self.program.waits[node] = ()
        else:
            self.program.waits[node] = (Dependency(found[0], event, found[1]),)

    def record(self, node: Node, given: dict[str, Any]) -> None:
        for user in node.users:
            if user.target is not _library.WAIT:
                raise InvalidArgument(
                    "the marker of record() is used as a value",
                    where=place_of(user if user.op != "output" else node),
                    advice="a marker can only be given to wait([...]) in the same graph",
                )
        self._record(node, EventId(f"marker:{node.name}"))

    def wait(self, node: Node, given: dict[str, Any]) -> None:
        self._note_stream(self.current)
        found: dict[Node, Dependency] = {}
        for dependency in given["dependencies"]:
            if dependency in self.program.records:
                event, version = self.program.records[dependency]
                found[dependency] = Dependency(dependency, event, version)
                continue
            for storage in self.program.memory.storages(dependency):
                writer = self.writers.get(storage)
                if writer is not None:
                    found[writer] = Dependency(writer, EventId(f"value:{writer.name}", "value"), 0)
                elif storage.allocator is None:
                    self.program.waits_for_given = True
        self.program.waits[node] = tuple(found.values())

    def record_stream(self, node: Node, given: dict[str, Any]) -> None:
        self.program.notes[node] = RecordStream(given["input"], StreamId(given["tag"]))

    def limit_enter(self, node: Node, given: dict[str, Any]) -> None:
        stream = StreamId(given["tag"]) if given["tag"] else self.current
        limit = _Limit(stream, given["aicore"], given["vectorcore"], node, bool(given["tag"]))
        self.limits.append(limit)
        self.program.notes[node] = LimitCores(stream, limit.aicore, limit.vectorcore)

    def limit_exit(self, node: Node, given: dict[str, Any]) -> None:
        if not self.limits or not (self.limits[-1].alone or self.limits[-1].stream == self.current):
            raise UnbalancedScope(
                "a core limit is left on another stream than it was set on, or was never set",
                where=place_of(node),
                advice="use `with limit_core_num(...)`, which nests by itself",
            )
        self.program.notes[node] = RestoreCores(self.limits.pop().stream)


_Handler = Callable[[_Reader, Node, dict[str, Any]], None]

_HANDLERS: Final[dict[Any, _Handler]] = {
    _library.STREAM_ENTER: _Reader.enter,
    _library.STREAM_EXIT: _Reader.exit,
    _library.EVENT_RECORD: _Reader.event_record,
    _library.EVENT_WAIT: _Reader.event_wait,
    _library.RECORD_STREAM: _Reader.record_stream,
    _library.RECORD: _Reader.record,
    _library.WAIT: _Reader.wait,
    _library.CORE_LIMIT_ENTER: _Reader.limit_enter,
    _library.CORE_LIMIT_EXIT: _Reader.limit_exit,
}


def _arguments(node: Node) -> dict[str, Any]:
    """The arguments of an operator by name, defaults filled in, however a pass has spelt the call."""
    assert isinstance(node.target, OpOverload)
    return named_arguments(node, node.target, defaults=True)


def _is_native(target: Any) -> bool:
    if isinstance(target, OpOverload):
        return target.namespace == "streams"
    return isinstance(target, HigherOrderOperator) and target.name() == "control_deps"


def _has_inner_streams(node: Node) -> bool:
    """Whether a subgraph which a higher-order operator is given switches, records or waits."""
    return any(
        inner.target in _library.STREAM_OPS
        for body in bodies_of(node)
        for module in body.modules()
        if isinstance(module, GraphModule)
        for inner in module.graph.nodes
    )


def read_program(graph: Graph) -> Program:
    """Reads a graph as a multi-stream program."""
    return _Reader(graph).read()


def works(program: Program) -> Iterator[Node]:
    """The nodes with device work, in order."""
    return (node for node in program.order if program.is_work(node))
