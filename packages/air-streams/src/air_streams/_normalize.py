"""Turns native stream and event code of a Dynamo graph into the operators of this package.

    set_stream(get_external_object_by_index(2))            stream_enter("native:npu:0:1")
    streams.wait_event(1, 2)                          ->   event_wait("native:0")
    z = y * 2              # custom: {"stream": 2}         z = y * 2
    set_stream(current_stream())                           stream_exit("native:npu:0:1")

Dynamo tells the stream of a node in two ways: an annotation in the node's metadata (`with stream:`) and calls
of `set_stream` (torch_npu's stream context, or the user). An annotation wins. Both are removed, together with
the numbered objects, so that AOTAutograd's own stream passes find nothing to do.

torch 2.11 writes some calls as methods of the numbered objects, of `current_stream()` and of the event that
`record_event()` gives, where later versions write operators of numbers only: both forms are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node

from air_graph import lend_lines, place_of
from air_streams import _bodies, _library, _native
from air_streams._checkpoints import take_out_beside_checkpoints
from air_streams._markers import let_markers_out, note_records
from air_streams._outside import CALLER, Awaited, Outside
from air_streams._sites import number_sites
from air_streams._tags import ENTRY_TAG
from air_streams._unmatched import Limits, take_out_unmatched
from air_streams.errors import NativeStreamError


@dataclass(frozen=True)
class NormalizeReport:
    """What `normalize` found: native calls replaced, by name, and the tags and event keys it gave.

    `objects` has the number of Dynamo for each tag and key that means an object of the program, and `outside` what the
    program can do with them beside the graph.
    """

    replaced: dict[str, int] = field(default_factory=dict)
    streams: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    objects: dict[str, int] = field(default_factory=dict)
    outside: Outside = field(default_factory=Outside)

    @property
    def modified(self) -> bool:
        """Whether there was any native code."""
        return bool(self.replaced)


@dataclass(frozen=True)
class _Open:
    """An open scope: a native one by its tag, or a tagged one (`tag` None) with what it inherited."""

    tag: str | None
    inherited: str | None = None


class _Normalizer:
    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        self.graph = gm.graph
        self.ambient: str | None = None
        self.open: list[_Open] = []
        self.ends: int | None = None  # the number of the stream that `set_stream` left current
        self.ambient_of: dict[Any, tuple[str | None, int | None]] = {}  # what `current_stream()` gave
        self.made: dict[Any, str] = {}  # what `record_event()` gave
        self.replaced: dict[str, int] = {}
        self.streams: dict[str, None] = {}
        self.events: dict[str, None] = {}
        self.objects: dict[str, int] = {}
        # a later call may have another object behind each of them
        self.numbers: dict[str, dict[int, None]] = {}
        self.recorded: dict[str, None] = {}
        self.awaited: dict[str, None] = {}
        self.after: dict[str, set[str]] = {}  # which streams and outside events a stream or event follows
        self.dead: list[Node] = []
        self.taken: dict[tuple[str, ...], _bodies.Inside | None] = {}
        self.pairs = 0
        self.is_alone = _bodies.is_around_bodies_alone(gm.graph, _NATIVE)

    def run(self) -> NormalizeReport:
        lend_lines(self.graph)
        for node in list(self.graph.nodes):
            self._node(node)
        for node in self.graph.nodes:
            _forget_annotation(node)
        for node in reversed(self.dead):
            self.graph.erase_node(node)
        for node in reversed(self.graph.nodes):
            if node.target is get_external_object_by_index and not node.users:
                self.graph.erase_node(node)
        let_markers_out(self.graph)
        note_records(self.graph)
        tagged = take_out_beside_checkpoints(self.graph)
        limits = take_out_unmatched(self.gm)
        number_sites(self.gm)
        if "set_stream" in self.replaced:
            _native.set_entry_stream_again()
        self.graph.lint()
        self.gm.recompile()
        return NormalizeReport(
            self.replaced,
            tuple(self.streams),
            tuple(self.events),
            self.objects,
            self._outside(limits, tagged),
        )

    def _outside(self, limits: Limits, tagged: Awaited) -> Outside:
        streams, awaited, recorded = (
            tuple(number for name in names for number in self.numbers.get(name, ()))
            for names in (self.streams, self.awaited, self.recorded)
        )
        others = {tag: self.numbers[tag] for tag in self.streams if tag in self.objects}
        waits = {
            (number, before)
            for tag, numbers in others.items()
            for earlier in self._before(tag) - {tag}
            for number in numbers
            for before in others.get(earlier, {CALLER: None})
        }
        return Outside(streams, awaited, recorded, tuple(sorted(waits)), tagged, limits, self.ends)

    def _before(self, name: str) -> set[str]:
        return self.after.setdefault(name, {name})

    def _node(self, node: Node) -> None:
        if node.op in ("placeholder", "get_attr") or node.target is get_external_object_by_index:
            return
        handler = _HANDLERS.get(_name(node))
        if handler is not None:
            self.replaced[_name(node)] = self.replaced.get(_name(node), 0) + 1
            handler(self, node)
            self.dead.append(node)
            return
        if node.op == "call_method" and _is_native_object(node.args[0] if node.args else None):
            raise _refusal(node, f"`{node.target}` of a stream or event asks the host to look at the device")
        self._scope(node)
        if isinstance(node.target, HigherOrderOperator) and (inside := self._inside(node)) is not None:
            self._around(node, inside)

    def _scope(self, node: Node) -> None:
        if node.op == "output":
            self._move_to(node, None)
            return
        desired = self._desired(node)
        if _is_op(node, _library.STREAM_EXIT):
            while self.open and self.open[-1].tag is not None:
                self._close(node)
            if self.open:
                self.open.pop()
            return
        self._move_to(node, desired)
        if _is_op(node, _library.STREAM_ENTER):
            self.open.append(_Open(None, desired))

    def _inside(self, node: Node) -> _bodies.Inside | None:
        """What is taken out of the bodies of an operator; a region has one body for all its calls."""
        names = tuple(str(n.target) for n in node.all_input_nodes if n.op == "get_attr")
        if names not in self.taken and _bodies.has_streams(node, _NATIVE):
            self.taken[names] = _bodies.taken_out(node, _NATIVE)
        return self.taken.get(names)

    def _around(self, node: Node, inside: _bodies.Inside) -> None:
        """Orders an operator whose body had stream code after and before what its streams and events stand for."""
        _bodies.warn_of_ignored(node, inside)
        tags = dict.fromkeys((*inside.tags, *map(self._tag, inside.streams)))
        if self.is_alone or not inside.has_order():
            self._share(node, inside)
            return
        here = self._new_key("body")
        for key in (*inside.waited, *(self._await(node, number) for number in inside.waited_numbers)):
            if key is not None:
                self._call(node, _library.EVENT_WAIT, (key,))
        for tag in tags:
            self._on(node, tag, (_library.EVENT_RECORD, (f"{here}:{tag}",)))
            self._call(node, _library.EVENT_WAIT, (f"{here}:{tag}",))
            self._before(ENTRY_TAG).update(self._before(tag))
        if inside.waits_for_tensors:
            tensors = [
                n for n in node.all_input_nodes if isinstance(n.meta.get("example_value"), torch.Tensor)
            ]
            self._call(node, _library.WAIT, (tensors,))
        behind = node.next
        for key in (here, *inside.recorded, *(self._key(node, number) for number in inside.recorded_numbers)):
            self._call(behind, _library.EVENT_RECORD, (key,))
            self.recorded[key] = None
        for tag in tags:
            self._on(behind, tag, (_library.EVENT_WAIT, (here,)))
            self._before(tag).update(self._before(ENTRY_TAG))

    def _share(self, node: Node, inside: _bodies.Inside) -> None:
        """Notes the events that the code outside has as well."""
        for number in inside.waited_numbers:
            self._await(node, number)
        for number in inside.recorded_numbers:
            self.recorded[self._key(node, number)] = None

    def _await(self, node: Node, number: int) -> str | None:
        """The key of an event that a body waits for; None for one that is recorded before the call."""
        key = self._key(node, number)
        if key in self.recorded:
            return key
        self.awaited[key] = None
        return None

    def _desired(self, node: Node) -> str | None:
        index = _annotation(node)
        if index is None:
            return self.ambient
        self.replaced["with stream"] = self.replaced.get("with stream", 0) + 1
        return self._tag(index)

    def _move_to(self, node: Node, desired: str | None) -> None:
        """Leaves and enters native scopes before `node`; what a tagged scope inherited means the tagged stream."""
        while self.open and self.open[-1].tag is not None and self.open[-1].tag != desired:
            self._close(node)
        top = self.open[-1] if self.open else _Open(None, ENTRY_TAG)
        if desired is None or desired in (top.tag, top.inherited):
            return
        self._call(node, _library.STREAM_ENTER, (desired,))
        self.open.append(_Open(desired))

    def _close(self, node: Node) -> None:
        self._call(node, _library.STREAM_EXIT, (self.open.pop().tag,))

    def _call(self, before: Node, op: Any, args: tuple[Any, ...]) -> None:
        with self.graph.inserting_before(before):
            call = self.graph.call_function(op, args)
        call.meta["stack_trace"] = before.meta.get("stack_trace")

    def _tag(self, index: int) -> str:
        tag = _native.stream_tag(_native.object_at(index))
        self.streams[tag] = None
        if tag != ENTRY_TAG:
            self.objects.setdefault(tag, index)
        elif _native.is_of_the_call(index):
            return tag  # in another call as well
        self.numbers.setdefault(tag, {})[index] = None
        return tag

    def _stream_argument(self, node: Node, operand: Any) -> str:
        if operand in self.ambient_of:
            return self.ambient_of[operand][0] or ENTRY_TAG
        tag = self._tag(_number(node, operand))
        annotated = _annotation(node) is not None
        if tag == ENTRY_TAG and not annotated and self.ambient not in (None, ENTRY_TAG):
            raise NativeStreamError(
                "after set_stream(...) it cannot be told which stream 'the current stream' means here",
                where=place_of(node),
                advice="use `with torch.npu.stream(stream):` instead of set_stream",
            )
        return tag

    def _key(self, node: Node, operand: Any) -> str:
        key = self.made.get(operand)
        if key is None:
            number = _number(node, operand)
            key = _native.event_key(_native.object_at(number))
            self.objects.setdefault(key, number)
            self.numbers.setdefault(key, {})[number] = None
        self.events[key] = None
        return key

    def _new_key(self, kind: str) -> str:
        key = f"{kind}:{self.pairs}"
        self.pairs += 1
        return key

    def _on(self, node: Node, tag: str, *calls: tuple[Any, tuple[Any, ...]]) -> None:
        """The calls, on the stream behind `tag`, wherever the program is."""
        here = self.open[-1].tag if self.open else ENTRY_TAG
        if here != tag:
            calls = ((_library.STREAM_ENTER, (tag,)), *calls, (_library.STREAM_EXIT, (tag,)))
        for op, args in calls:
            self._call(node, op, args)

    def record_event(self, node: Node) -> None:
        *event, stream = _operands(node)
        if not event:
            self.made[node] = self._new_key("record_event")
        key = self._key(node, *(event or [node]))
        tag = self._stream_argument(node, stream)
        self.recorded[key], self.after[key] = None, set(self._before(tag))
        self._on(node, tag, (_library.EVENT_RECORD, (key,)))

    def wait_event(self, node: Node) -> None:
        event, stream = _operands(node)
        key, tag = self._key(node, event), self._stream_argument(node, stream)
        self._before(tag).update(self._before(key))
        if key in self.recorded:
            self._on(node, tag, (_library.EVENT_WAIT, (key,)))
        else:  # it means a record before the call, for which the whole graph waits
            self.awaited[key] = None

    def wait_stream(self, node: Node) -> None:
        waiting, waited_on = (self._stream_argument(node, operand) for operand in _operands(node))
        key = self._new_key("wait_stream")
        self._before(waiting).update(self._before(waited_on))
        self._on(node, waited_on, (_library.EVENT_RECORD, (key,)))
        self._on(node, waiting, (_library.EVENT_WAIT, (key,)))

    def record_stream(self, node: Node) -> None:
        tensor, stream = node.args
        self._call(node, _library.RECORD_STREAM, (tensor, self._stream_argument(node, stream)))

    def sync_dealloc(self, node: Node) -> None:
        event, stream, tensor = node.args
        tag = self._tag(_number(node, stream))
        key = self._key(node, event)
        self._before(tag).update(self._before(key))
        wait = (_library.EVENT_WAIT, (key,))
        self._on(node, tag, wait, (_library.RECORD_STREAM, (tensor, tag)))

    def set_stream(self, node: Node) -> None:
        target = node.args[0]
        if target in self.ambient_of:
            self.ambient, self.ends = self.ambient_of[target]
            return
        number = _number(node, target)
        self.ambient = self._tag(number)
        # a stream that is current when the function is compiled need not be in the next call
        self.ends = number if _native.may_be_current(number) else None

    def current_stream(self, node: Node) -> None:
        self.ambient_of[node] = self.ambient, self.ends

    def fork_or_join(self, node: Node) -> None:
        _, stream = _operands(node)
        self.ambient = self._tag(_number(node, stream))

    def limit_cores(self, node: Node) -> None:
        stream, aicore, vectorcore = node.args
        tag = self._stream_argument(node, stream)
        self._call(node, _library.CORE_LIMIT_ENTER, (aicore, vectorcore, tag))

    def refuse_host_wait(self, node: Node) -> None:
        raise _refusal(node, f"{_name(node).removeprefix('streams.')} makes the host wait for the device")


_Handler = Callable[[_Normalizer, Node], None]

_HANDLERS: Final[dict[str, _Handler]] = {
    "streams.record_event": _Normalizer.record_event,
    "streams.wait_event": _Normalizer.wait_event,
    "streams.wait_stream": _Normalizer.wait_stream,
    "streams.record_stream": _Normalizer.record_stream,
    "streams.sync_dealloc": _Normalizer.sync_dealloc,
    "streams.fork": _Normalizer.fork_or_join,
    "streams.join": _Normalizer.fork_or_join,
    "streams.synchronize": _Normalizer.refuse_host_wait,
    "streams.synchronize_event": _Normalizer.refuse_host_wait,
    "streams.synchronize_stream": _Normalizer.refuse_host_wait,
    "streams.synchronize_device": _Normalizer.refuse_host_wait,
    "set_stream": _Normalizer.set_stream,
    "current_stream": _Normalizer.current_stream,
    "core_limit_on_stream": _Normalizer.limit_cores,
    "fake_record_stream": _Normalizer.record_stream,  # how torch_npu 2.11 has it traced
}
_FUNCTIONS: Final = frozenset(name for name in _HANDLERS if not name.startswith("streams."))


class _NativeCode:
    """Torch's own stream code in the body of a higher-order operator."""

    def is_call(self, node: Node) -> bool:
        is_object = node.target is get_external_object_by_index or _is_native_object(node)
        return (
            is_object
            or _name(node) in _HANDLERS
            or (node.op == "call_method" and any(map(_is_native_object, node.args[:1])))
        )

    def is_in(self, node: Node) -> bool:
        return self.is_call(node) or _annotation(node) is not None

    def note(self, node: Node, inside: _bodies.Inside) -> bool:
        if (number := _annotation(node)) is not None:
            inside.streams[number] = None
            _forget_annotation(node)
        if not self.is_call(node) or node.target is get_external_object_by_index:
            return True
        handler = _HANDLERS.get(_name(node))
        if handler in (None, _Normalizer.refuse_host_wait, _Normalizer.limit_cores):
            return False
        for operand in _operands(node) if node.op == "call_method" else node.args:
            if isinstance(operand, Node) and operand.target is get_external_object_by_index:
                operand = operand.args[0]
            if type(operand) is not int:
                continue
            if _native.is_stream(operand):
                inside.streams[operand] = None
            elif handler is _Normalizer.record_event:
                inside.recorded_numbers[operand] = None
            elif handler is _Normalizer.wait_event and operand not in inside.recorded_numbers:
                inside.waited_numbers[operand] = None
        return True


_NATIVE: Final = _NativeCode()

_METHODS: Final[dict[str, tuple[int, ...]]] = {  # where a method has what the operator of its name is given
    "wait_event": (1, 0),
    "record_event": (1, 0),
    "wait_stream": (0, 1),
    "record_stream": (0, 1),
    "synchronize": (0,),
}


def _name(node: Node) -> str:
    """How the table calls a node's target: an operator of torch's `streams`, or a device module's function."""
    if node.op == "call_method":
        known = node.target in _METHODS and any(map(_is_native_object, node.args))
        return f"streams.{node.target}" if known else ""
    if node.op != "call_function":
        return ""
    target = node.target
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        packet = target.overloadpacket if isinstance(target, torch._ops.OpOverload) else target
        space, _, name = str(packet._qualified_op_name).partition("::")
        return f"streams.{name}" if space == "streams" else ""
    name = getattr(target, "__name__", "")
    return name if name in _FUNCTIONS else ""


def _operands(node: Node) -> list[Any]:
    """What a call is given, in the order of the operators; an event that is not given is left out."""
    if node.op != "call_method":
        return list(node.args)
    return [node.args[place] for place in _METHODS[str(node.target)] if place < len(node.args)]


def _number(node: Node, operand: Any) -> int:
    """The number of a stream or an event, of which some calls have the object."""
    if isinstance(operand, Node) and operand.target is get_external_object_by_index:
        (operand,) = operand.args
    if not isinstance(operand, int):
        name = _name(node).removeprefix("streams.")
        raise _refusal(
            node, f"{name} is given {operand}, which is not a stream or event known at compile time"
        )
    return operand


def _is_op(node: Node, op: Any) -> bool:
    return node.target in (op, op.overloadpacket)


def _is_native_object(arg: Any) -> bool:
    """A node whose value is a stream or an event: a numbered one, the current stream, or one just recorded."""
    if not isinstance(arg, Node):
        return False
    if arg.op == "call_method":
        return arg.target == "record_event" and any(map(_is_native_object, arg.args))
    return arg.target is get_external_object_by_index or _name(arg) == "current_stream"


def _refusal(node: Node, why: str) -> NativeStreamError:
    return NativeStreamError(
        f"{why}, which a captured graph cannot do",
        where=place_of(node),
        advice="let streams wait for each other (wait_event, wait_stream), or synchronise outside the function",
    )


def _annotation(node: Node) -> int | None:
    """The number of the stream in whose `with` block a node is; the program may annotate nodes under that name too."""
    index = (node.meta.get("custom") or {}).get("stream")
    return index if _native.is_stream(index) else None


def _forget_annotation(node: Node) -> None:
    custom = node.meta.get("custom")
    if custom and _annotation(node) is not None:
        rest = {key: value for key, value in custom.items() if key != "stream"}
        if rest:
            node.meta["custom"] = rest
        else:
            del node.meta["custom"]


def normalize(gm: GraphModule) -> NormalizeReport:
    """Rewrites a Dynamo graph in place, before AOTAutograd; raises `NativeStreamError` where the host would wait."""
    return _Normalizer(gm).run()


def is_native(gm: GraphModule) -> bool:
    """Whether a Dynamo graph has native streams or events, which `normalize` would replace."""
    graphs = (part.graph for part in gm.modules() if isinstance(part, GraphModule))
    return any(_NATIVE.is_in(node) for graph in graphs for node in graph.nodes)
