"""Scopes of a model as attributes of the operators inside, and waits as control edges.

    with npu_stream_switch("1"):          MatMulV2 {_user_stream_label: "1", _user_stream_priority: "0"}
        y = torch.mm(a, b)          ->
    with limit_core_num(4, 8):            Relu {_op_aicore_num: "4", _op_vectorcore_num: "8"}
        z = torch.relu(y)

The stream operators compute nothing: the engine reads the attributes when it compiles the graph. `wait` makes every
operator after it, on the same stream, run after what it waits for. Tagged events have no counterpart here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import fx

from air_geir.building._value import Value
from air_geir.errors import CannotConvert
from air_geir.ir import Graph, Node
from air_geir.types import INPUT_TYPES
from air_streams import NAMESPACE

_ops: Final = getattr(torch.ops, NAMESPACE)
_LABEL: Final = "_user_stream_label"
#: Marks, before a label, the only stream that a scope applies to; its value is empty, so it never becomes an attribute.
_ALONE: Final = "alone on "
_NOT_WORK: Final = INPUT_TYPES | {"Const", "NetOutput"}


class Scopes:
    """The scopes that are open while a graph is lowered."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.open: list[tuple[str, dict[str, str]]] = []
        self.marks: dict[fx.Node, Node | None] = {}
        self.awaited: dict[str, list[Node]] = {}

    def takes(self, node: fx.Node, read: Callable[[Any], Any]) -> bool:
        """Whether the node is a stream operator; if so, it has acted."""
        if node.target is _ops.wait.default:
            self.wait(node, read)
        elif node.target in _ENDS:
            self._pop(_ENDS[node.target])
        elif node.target in _HANDLERS:
            _HANDLERS[node.target](self, node)
        else:
            return False
        return True

    @property
    def stream(self) -> str:
        """The label of the stream that is current."""
        return self._merged().get(_LABEL, "")

    def _merged(self) -> dict[str, str]:
        label = next((a[_LABEL] for _, a in reversed(self.open) if _LABEL in a), "")
        merged: dict[str, str] = {}
        for _, attributes in self.open:
            alone = next((name for name in attributes if name.startswith(_ALONE)), None)
            if alone is None or alone == _ALONE + label:
                merged.update(attributes)
        return {name: value for name, value in merged.items() if value != ""}

    def _push(self, kind: str, attributes: Mapping[str, str]) -> None:
        self.open.append((kind, dict(attributes)))
        self._apply()

    def _pop(self, kind: str) -> None:
        if not self.open or self.open[-1][0] != kind:
            raise CannotConvert(
                f"the scope that ends is not the innermost one ({kind})",
                advice="use `with`, and keep each block in one graph: no graph break inside (fullgraph=True shows it)",
            )
        self.open.pop()
        self._apply()

    def _apply(self) -> None:
        """Sets what the graph adds to every operator made from now on."""
        self.graph.scope_attrs = dict(self._merged())
        self.graph.scope_control = tuple(self.awaited.get(self.stream, ()))

    def enter_stream(self, node: fx.Node) -> None:
        tag, priority = node.args[0], node.args[1] if len(node.args) > 1 else 0
        label = "" if tag == "default" else str(tag)
        ranked = "" if not label else str(priority)
        self._push("stream", {"_user_stream_label": label, "_user_stream_priority": ranked})

    def enter_limit(self, node: fx.Node) -> None:
        aicore, vectorcore = node.args[:2]
        tag = node.args[2] if len(node.args) > 2 else node.kwargs.get("tag", "")
        limit = {"_op_aicore_num": str(aicore), "_op_vectorcore_num": str(vectorcore)}
        if tag:
            label = "" if tag == "default" else str(tag)
            limit = {_ALONE + label: "", **limit}
        self._push("cores", limit)

    def enter_attributes(self, node: fx.Node) -> None:
        names, values = node.args[:2]
        self._push("attributes", dict(zip(map(str, names), map(str, values), strict=True)))  # type: ignore[arg-type]  # lists of text, by the schema

    def record(self, node: fx.Node) -> None:
        work = (made for made in self.graph if made.op_type not in _NOT_WORK)
        self.marks[node] = next(iter(deque(work, maxlen=1)), None)

    def wait(self, node: fx.Node, read: Callable[[Any], Any]) -> None:
        awaited = self.awaited.setdefault(self.stream, [])
        for dependency in node.args[0]:  # type: ignore[union-attr]  # a list of nodes, by the schema
            assert isinstance(dependency, fx.Node), "by the schema"
            if dependency in self.marks:
                found = self.marks[dependency]
            else:
                value = read(dependency)
                found = value.port.node if isinstance(value, Value) else None
            if found is not None and found.op_type not in _NOT_WORK and found not in awaited:
                awaited.append(found)
        self._apply()

    def record_stream(self, node: fx.Node) -> None:
        """Nothing to do: the engine plans memory across its streams itself."""

    def event(self, node: fx.Node) -> None:
        raise CannotConvert(
            "tagged events belong to reduce-overhead: Ascend IR has no event",
            advice="order the work with ops.record() and ops.wait([...]), or use config.mode = 'reduce-overhead'",
        )


_ENDS: Final = {
    _ops.stream_exit.default: "stream",
    _ops.core_limit_exit.default: "cores",
    _ops.attributes_exit.default: "attributes",
}
_HANDLERS: Final[dict[Any, Callable[[Scopes, fx.Node], None]]] = {
    _ops.stream_enter.default: Scopes.enter_stream,
    _ops.core_limit_enter.default: Scopes.enter_limit,
    _ops.attributes_enter.default: Scopes.enter_attributes,
    _ops.record.default: Scopes.record,
    _ops.record_stream.default: Scopes.record_stream,
    _ops.event_record.default: Scopes.event,
    _ops.event_wait.default: Scopes.event,
}
