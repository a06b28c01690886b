"""Graphs: an ordered set of nodes, edited in constant time."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import torch

from air_geir.errors import GraphError, PrototypeError
from air_geir.ir._attr import Attr, TensorValue
from air_geir.ir._desc import TensorDesc
from air_geir.ir._node import Node, Origin, Port, Value, check_attrs, names_of, port_of
from air_geir.ir._order import topological
from air_geir.prototypes import PortKind, Prototype, get
from air_geir.types import DataType

Argument: TypeAlias = "Value | Sequence[Value] | None"
"""What `Graph.add` takes for one input: a value, None for an optional one, a sequence for a dynamic one."""


class Graph:
    """An Ascend IR graph.

    Nodes stand in program order (a doubly linked list), so inserting and erasing cost the same at any size; names are
    unique; every value knows its users. Iterating gives the nodes in that order, which is topological as long as
    every insertion is made before its users; `sort` restores it after edits that are not.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.attrs: dict[str, Attr] = {}
        self.extra: dict[str, bytes] = {}
        self.origin: Origin | None = None
        """Given to every node made from now on; set it with `origin_of`."""
        self.scope_attrs: dict[str, object] = {}
        """Attributes given to every node made from now on, such as a stream label."""
        self.scope_control: tuple[Node, ...] = ()
        """Nodes that every node made from now on runs after."""
        self._head = Node(self, "", "", None)
        self._names: dict[str, Node] = {}
        self._counters: dict[str, int] = {}
        self._data: dict[Node, None] = {}
        self._net_output: Node | None = None
        self._before: Node = self._head

    # building ---------------------------------------------------------------------------------------------

    def data(self, name: str, desc: TensorDesc, index: int | None = None, *, op_type: str = "Data") -> Port:
        """An input of the graph. Without an index it comes after the inputs made so far."""
        at = len(self._data) if index is None else index
        node = self._new(get(op_type), name)
        node.arity, node.input_names, node._inputs = (1,), ("x",), [None]
        node.attrs["index"] = (
            Attr.of(node.prototype.attr["index"].kind, at) if node.prototype else Attr.guess(at)
        )
        node.outputs = (Port(node, 0, "y", desc),)
        self._link(node)
        return node.output

    def const(
        self, value: torch.Tensor | TensorValue | bool | int | float | Sequence[int] | Sequence[float], *,
        dtype: DataType | torch.dtype | None = None, name: str | None = None,
    ) -> Port:  # fmt: skip
        """A constant. Python floats become float32, integers int64; `dtype` chooses another type."""
        held = value if isinstance(value, TensorValue) else TensorValue.of(_as_tensor(value, dtype))
        node = self._new(get("Const"), name)
        node.attrs["value"] = (
            Attr(node.prototype.attr["value"].kind, held) if node.prototype else Attr.guess(held)
        )
        node.outputs = (Port(node, 0, "y", held.desc),)
        self._link(node)
        return node.output

    def add(
        self,
        op_type: str | Prototype,
        *inputs: Argument,
        attrs: Mapping[str, object] | None = None,
        outputs: TensorDesc | Sequence[TensorDesc] | None = None,
        num_outputs: int | None = None,
        subgraphs: Mapping[str, Graph] | None = None,
        control: Sequence[Value] = (),
        name: str | None = None,
        **keyword_attrs: object,
    ) -> Node:
        """Add a node, checked against the prototype of its type.

        Args:
            op_type: the operator type, or its prototype.
            inputs: one argument per input of the prototype, in order. Trailing optional inputs may be left out.
            attrs: attributes by name; may also be given as keywords. Unknown, missing or ill-typed ones are refused.
            outputs: what is known of the outputs. Left out, the engine infers it.
            num_outputs: how many values a dynamic output gives; taken from `outputs` when that is a sequence.
            subgraphs: the graphs of a control-flow operator, by the names of the prototype.
            control: nodes this one must run after.
            name: a wish; a suffix makes it unique. Left out, the type is the base.
        """
        prototype = get(op_type) if isinstance(op_type, str) else op_type
        node = self._new(prototype, name)
        try:
            node.attrs = check_attrs(prototype, {**(attrs or {}), **keyword_attrs}, node.name)
            slots = self._bind_inputs(node, prototype, inputs)
            self._bind_outputs(node, prototype, outputs, num_outputs)
            _bind_subgraphs(node, prototype, subgraphs or {})
        except Exception:
            del self._names[node.name]
            raise
        for key, value in self.scope_attrs.items():
            node.attrs.setdefault(key, Attr.guess(value))
        node._inputs = slots
        for slot, port in enumerate(slots):
            if port is not None:
                port._uses[node, slot] = None
        self._link(node)
        if control:
            node.run_after(*control)
        if self.scope_control and prototype.op_type != "NetOutput":
            node.run_after(*self.scope_control)
        return node

    def output(self, values: Sequence[Value], *, control: Sequence[Value] = ()) -> Node:
        """Say what the graph gives back, once per graph. Control edges keep nodes alive that give no value."""
        if self._net_output is not None:
            raise GraphError(
                f"graph {self.name} already has an output", advice="edit graph.net_output instead"
            )
        node = self.add("NetOutput", list(values), control=control, name="NetOutput")
        self._net_output = node
        return node

    def append_output(self, value: Value) -> int:
        """Give back one more value; says its position."""
        node, port = self.net_output, port_of(value)
        position = len(node.inputs)
        node.input_names = (*node.input_names, f"input{position}")
        node.arity = (position + 1,)
        node._inputs.append(None)
        node.set_input(position, port)
        return position

    def raw(
        self,
        name: str,
        op_type: str,
        *,
        prototype: Prototype | None = None,
        arity: Sequence[int] = (),
        input_names: Sequence[str] = (),
        outputs: Sequence[tuple[str, TensorDesc]] = (),
    ) -> Node:
        """A node as a file describes it: exact name, no check against a prototype, inputs still to be set."""
        self._refuse_taken(name)
        node = Node(self, name, op_type, prototype)
        self._names[name] = node
        node.arity, node.input_names = tuple(arity), tuple(input_names)
        node._inputs = [None] * len(node.input_names)
        node.outputs = tuple(Port(node, i, n, d) for i, (n, d) in enumerate(outputs))
        self._link(node)
        if op_type == "NetOutput":
            self._net_output = node
        return node

    # looking ----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Node]:
        node = self._head._next
        while node is not self._head:
            following = node._next
            yield node
            node = following if node.graph is None else node._next

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def node(self, name: str) -> Node:
        """The node of this name."""
        found = self._names.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self._names, 3)
            raise GraphError(
                f"graph {self.name} has no node {name!r}",
                advice=f"did you mean {', '.join(near)}?" if near else "list(graph) gives its nodes",
            )
        return found

    def of_type(self, *op_types: str) -> Iterator[Node]:
        """Nodes of these types, in order."""
        return (node for node in self if node.op_type in op_types)

    @property
    def inputs(self) -> list[Node]:
        """The Data and RefData nodes, by index."""
        return sorted(self._data, key=lambda n: int(n.attr("index")))

    @property
    def net_output(self) -> Node:
        """The node that collects the outputs."""
        if self._net_output is None:
            raise GraphError(f"graph {self.name} has no output yet", advice="call graph.output([...])")
        return self._net_output

    @property
    def has_output(self) -> bool:
        """True once `output` was called."""
        return self._net_output is not None

    @property
    def outputs(self) -> list[Port]:
        """The values the graph gives back."""
        return [p for p in self.net_output.inputs if p is not None]

    def graphs(self) -> Iterator[Graph]:
        """This graph and, below it, every subgraph."""
        yield self
        for node in self:
            for sub in node.subgraphs.values():
                yield from sub.graphs()

    # editing ----------------------------------------------------------------------------------------------

    @contextmanager
    def inserting_before(self, node: Node) -> Iterator[None]:
        """New nodes go before this one."""
        saved, self._before = self._before, node
        try:
            yield
        finally:
            self._before = saved

    @contextmanager
    def origin_of(self, origin: Origin | None) -> Iterator[None]:
        """New nodes come from there."""
        saved, self.origin = self.origin, origin
        try:
            yield
        finally:
            self.origin = saved

    def rename(self, node: Node, name: str) -> None:
        """Give a node another name, which must be free."""
        self._refuse_taken(name)
        del self._names[node.name]
        node.name = name
        self._names[name] = node

    def sort(self) -> None:
        """Put the nodes into topological order, keeping program order wherever it is free."""
        order = topological(self)
        previous = self._head
        for node in order:
            previous._next, node._prev = node, previous
            previous = node
        previous._next, self._head._prev = self._head, previous

    def erase_dead(self) -> int:
        """Erase every node nothing needs, inputs and the output excepted; says how many."""
        pending = [n for n in self if n.is_dead and not self._is_anchor(n)]
        count = 0
        while pending:
            node = pending.pop()
            if node.graph is None or not node.is_dead:
                continue
            before = list(node.predecessors)
            node.erase()
            count += 1
            pending.extend(p for p in before if p.graph is not None and p.is_dead and not self._is_anchor(p))
        return count

    def unique_name(self, base: str) -> str:
        """A free name that starts with this one."""
        if base not in self._names:
            return base
        number = self._counters.get(base, 0)
        while True:
            number += 1
            if f"{base}_{number}" not in self._names:
                self._counters[base] = number
                return f"{base}_{number}"

    # internals --------------------------------------------------------------------------------------------

    def _refuse_taken(self, name: str) -> None:
        if name in self._names or not name:
            raise GraphError(
                f"node name {name!r} is empty or taken in graph {self.name}",
                advice="graph.unique_name() gives a free one",
            )

    def _is_anchor(self, node: Node) -> bool:
        return node is self._net_output or node in self._data

    def _new(self, prototype: Prototype, name: str | None) -> Node:
        node = Node(self, self.unique_name(name or prototype.op_type), prototype.op_type, prototype)
        node.origin = self.origin
        self._names[node.name] = node
        return node

    def _link(self, node: Node) -> None:
        before = self._before
        node._prev, node._next = before._prev, before
        before._prev._next = node
        before._prev = node
        if node.is_input:
            self._data[node] = None

    def _remove(self, node: Node) -> None:
        for slot in range(len(node._inputs)):
            node.set_input(slot, None)
        for other in node.control_inputs:
            node.drop_control(other)
        node._prev._next, node._next._prev = node._next, node._prev
        del self._names[node.name]
        self._data.pop(node, None)
        if node is self._net_output:
            self._net_output = None
        node.graph = None

    def _bind_inputs(
        self, node: Node, prototype: Prototype, given: tuple[Argument, ...]
    ) -> list[Port | None]:
        specs = prototype.inputs
        if len(given) > len(specs):
            raise _misfit(node, f"takes {len(specs)} inputs, got {len(given)}")
        slots: list[Port | None] = []
        arity: list[int] = []
        for position, spec in enumerate(specs):
            argument = given[position] if position < len(given) else None
            ports = self._ports(node, spec.name, spec.kind, argument)
            slots.extend(ports)
            arity.append(len(ports))
        node.arity = tuple(arity)
        node.input_names = names_of(prototype, arity)
        return slots

    def _ports(self, node: Node, name: str, kind: PortKind, argument: Argument) -> list[Port | None]:
        if kind is PortKind.DYNAMIC:
            if argument is None or isinstance(argument, (Port, Node)):
                raise _misfit(node, f"input {name} takes a sequence of values")
            return [self._own(node, name, value) for value in argument]
        if argument is None:
            if kind is PortKind.REQUIRED:
                raise _misfit(node, f"input {name} is required")
            return [None]
        if not isinstance(argument, (Port, Node)):
            raise _misfit(node, f"input {name} takes one value, got {type(argument).__name__}")
        return [self._own(node, name, argument)]

    def _own(self, node: Node, name: str, value: object) -> Port:
        if not isinstance(value, (Port, Node)):
            raise _misfit(node, f"input {name} takes values of this graph, got {type(value).__name__}")
        port = port_of(value)
        if port.node.graph is not self:
            raise _misfit(
                node, f"input {name} is fed by {port.key}, which is not a value of graph {self.name}"
            )
        return port

    def _bind_outputs(
        self,
        node: Node,
        prototype: Prototype,
        given: TensorDesc | Sequence[TensorDesc] | None,
        count: int | None,
    ) -> None:
        descs = [given] if isinstance(given, TensorDesc) else list(given or ())
        names = prototype.plain_outputs
        if names is None:
            if given is None and count is None:
                raise _misfit(
                    node, "has a dynamic output: say num_outputs, or give one description per output"
                )
            names = _dynamic_names(node, prototype, len(descs) if count is None else count)
        if descs and len(descs) != len(names):
            raise _misfit(node, f"gives {len(names)} outputs, {len(descs)} descriptions were given")
        unknown = TensorDesc.unknown()
        node.outputs = tuple(Port(node, i, n, descs[i] if descs else unknown) for i, n in enumerate(names))


def _dynamic_names(node: Node, prototype: Prototype, total: int) -> tuple[str, ...]:
    """Output names when one output is dynamic: it takes what the others leave."""
    fixed = sum(p.kind is not PortKind.DYNAMIC for p in prototype.outputs)
    dynamic = len(prototype.outputs) - fixed
    if dynamic > 1 and (total - fixed) % dynamic:
        raise _misfit(node, f"{total} outputs cannot be shared evenly by {dynamic} dynamic outputs")
    each = (total - fixed) // dynamic
    if each < 0:
        raise _misfit(node, f"has {fixed} outputs beside the dynamic one, {total} were announced")
    names: list[str] = []
    for spec in prototype.outputs:
        names.extend(
            (f"{spec.name}{i}" for i in range(each)) if spec.kind is PortKind.DYNAMIC else (spec.name,)
        )
    return tuple(names)


def _bind_subgraphs(node: Node, prototype: Prototype, given: Mapping[str, Graph]) -> None:
    wanted = set(prototype.subgraphs)
    dynamic = wanted == {"branches"}
    if (dynamic and not given) or (not dynamic and set(given) != wanted):
        raise _misfit(node, f"needs subgraphs {sorted(wanted) or 'none'}, got {sorted(given) or 'none'}")
    node.subgraphs = dict(given)


def _misfit(node: Node, problem: str) -> PrototypeError:
    return PrototypeError(f"{node.op_type} {problem}", where=node.name, advice=f"prototype: {node.prototype}")


def _as_tensor(
    value: torch.Tensor | bool | int | float | Sequence[int] | Sequence[float],
    dtype: DataType | torch.dtype | None,
) -> torch.Tensor:
    wanted = dtype.torch if isinstance(dtype, DataType) else dtype
    if isinstance(value, torch.Tensor):
        return value if wanted is None else value.to(wanted)
    if wanted is None:
        scalars = list(value) if isinstance(value, Sequence) else [value]
        wanted = torch.float32 if any(isinstance(v, float) for v in scalars) else torch.int64
        wanted = torch.bool if scalars and all(isinstance(v, bool) for v in scalars) else wanted
    return torch.tensor(value, dtype=wanted)
