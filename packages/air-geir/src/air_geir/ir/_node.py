"""Nodes, the values they give, and the edges between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from air_geir.errors import GraphError, PrototypeError
from air_geir.ir._attr import Attr
from air_geir.ir._desc import TensorDesc
from air_geir.prototypes import Prototype
from air_geir.types import INPUT_TYPES

if TYPE_CHECKING:
    from air_geir.ir._graph import Graph


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node comes from: the FX node it was made for, and the line of the user's program."""

    fx: str
    source: str | None = None
    module: str = ""
    """The module that called it, `blocks.0.attention`; empty where none is known."""

    def __str__(self) -> str:
        return f"{self.fx} ({self.source})" if self.source else self.fx


class Port:
    """One output of a node: the value other nodes take."""

    __slots__ = ("_uses", "desc", "index", "name", "node")

    def __init__(self, node: Node, index: int, name: str, desc: TensorDesc) -> None:
        self.node = node
        self.index = index
        self.name = name
        self.desc = desc
        self._uses: dict[tuple[Node, int], None] = {}

    @property
    def uses(self) -> tuple[tuple[Node, int], ...]:
        """Every (node, input slot) that takes this value."""
        return tuple(self._uses)

    def feeds(self, node: Node, slot: int) -> bool:
        """True when this input slot takes this value; costs the same however many do."""
        return (node, slot) in self._uses

    @property
    def users(self) -> tuple[Node, ...]:
        """The nodes that take this value, each once."""
        return tuple(dict.fromkeys(node for node, _ in self._uses))

    @property
    def num_uses(self) -> int:
        """How many input slots take this value."""
        return len(self._uses)

    def replace_uses(self, new: Port, *, except_by: Node | None = None) -> int:
        """Let every user (but one) take `new` instead. Costs one step per use; says how many were changed."""
        taken = [use for use in self._uses if use[0] is not except_by]
        for node, slot in taken:
            node.set_input(slot, new)
        return len(taken)

    @property
    def key(self) -> str:
        """The spelling of this value in a file: `node:index`."""
        return f"{self.node.name}:{self.index}"

    def __repr__(self) -> str:
        return f"<{self.key} {self.name}: {self.desc}>"


Value: TypeAlias = "Port | Node"
"""What may feed an input: a value, or a node that has exactly one."""


class Node:
    """An operator in a graph. Made by `Graph.add` and its like, never directly.

    Inputs are slots in the order of the prototype; a slot that holds None is an optional input not fed. A dynamic
    input takes as many slots as it was given values; `arity` says how many slots each input of the prototype has.
    """

    __slots__ = (
        "_control_in",
        "_control_out",
        "_inputs",
        "_next",
        "_prev",
        "arity",
        "attrs",
        "extra",
        "graph",
        "input_descs",
        "input_names",
        "name",
        "op_type",
        "origin",
        "outputs",
        "prototype",
        "subgraphs",
    )

    def __init__(self, graph: Graph, name: str, op_type: str, prototype: Prototype | None) -> None:
        self.graph: Graph | None = graph
        self.name = name
        self.op_type = op_type
        self.prototype = prototype
        self.arity: tuple[int, ...] = ()
        self.input_names: tuple[str, ...] = ()
        self._inputs: list[Port | None] = []
        self.input_descs: dict[int, TensorDesc] = {}
        self.outputs: tuple[Port, ...] = ()
        self.attrs: dict[str, Attr] = {}
        self.subgraphs: dict[str, Graph] = {}
        self.origin: Origin | None = None
        self.extra: dict[str, bytes] = {}
        self._control_in: dict[Node, None] = {}
        self._control_out: dict[Node, None] = {}
        self._prev: Node = self
        self._next: Node = self

    @property
    def is_input(self) -> bool:
        """Whether it is an input of the graph."""
        return self.op_type in INPUT_TYPES

    @property
    def inputs(self) -> Sequence[Port | None]:
        """The value in each slot, None where an optional input is not fed."""
        return self._inputs

    @property
    def output(self) -> Port:
        """The only output."""
        if len(self.outputs) != 1:
            raise GraphError(
                f"{self.name} ({self.op_type}) has {len(self.outputs)} outputs, not one",
                advice="name the output: node.out('y'), or take node.outputs[i]",
            )
        return self.outputs[0]

    def out(self, name: str) -> Port:
        """The output of this name."""
        for port in self.outputs:
            if port.name == name:
                return port
        raise GraphError(f"{self.op_type} has no output {name!r}", where=self.name, advice=self._signature())

    def __getitem__(self, index: int) -> Port:
        return self.outputs[index]

    def __iter__(self) -> Iterator[Port]:
        return iter(self.outputs)

    def input(self, name: str) -> Port | None:
        """The value of a required or optional input."""
        ports = self.dynamic_input(name)
        if len(ports) != 1:
            raise GraphError(
                f"input {name!r} of {self.op_type} takes {len(ports)} values",
                where=self.name,
                advice="use node.dynamic_input(name)",
            )
        return ports[0]

    def dynamic_input(self, name: str) -> Sequence[Port | None]:
        """The values of an input, by the prototype's name."""
        start, stop = self.slots_of(name)
        return self._inputs[start:stop]

    def slots_of(self, name: str) -> tuple[int, int]:
        """First and one-past-last slot of an input, by the prototype's name."""
        if self.prototype is None:
            if name in self.input_names:
                return self.input_names.index(name), self.input_names.index(name) + 1
        elif name in self.prototype.input_index:
            position = self.prototype.input_index[name]
            start = sum(self.arity[:position])
            return start, start + self.arity[position]
        raise GraphError(f"{self.op_type} has no input {name!r}", where=self.name, advice=self._signature())

    def attr(self, name: str) -> Any:
        """The value of an attribute, or its default in the prototype."""
        found = self.attrs.get(name)
        if found is not None:
            return found.value
        spec = self.prototype.attr.get(name) if self.prototype else None
        if spec is None or spec.is_required:
            raise PrototypeError(
                f"{self.op_type} has no attribute {name!r}", where=self.name, advice=self._signature()
            )
        return spec.default

    def set_attr(self, name: str, value: object) -> None:
        """Set an attribute; its kind comes from the prototype, else from the value."""
        spec = self.prototype.attr.get(name) if self.prototype else None
        where = f"attribute {name} of {self.name}"
        self.attrs[name] = Attr.of(spec.kind, value, where=where) if spec else Attr.guess(value, where=where)

    def set_input(self, slot: int, value: Value | None) -> None:
        """Feed a slot with another value."""
        old = self._inputs[slot]
        new = port_of(value) if value is not None else None
        if new is not None and new.node.graph is not self.graph:
            raise GraphError(
                f"{new.key} belongs to another graph than {self.name}",
                advice="feed values of the node's own graph",
            )
        if old is not None:
            old._uses.pop((self, slot), None)
        self._inputs[slot] = new
        if new is not None:
            new._uses[self, slot] = None
            self.input_descs.pop(slot, None)

    def input_desc(self, slot: int) -> TensorDesc | None:
        """How the value is seen by this slot: the producer's description unless this node says otherwise."""
        own = self.input_descs.get(slot)
        if own is not None:
            return own
        port = self._inputs[slot]
        return port.desc if port is not None else None

    @property
    def control_inputs(self) -> tuple[Node, ...]:
        """Nodes that must have run before this one, beyond those that feed it."""
        return tuple(self._control_in)

    @property
    def control_outputs(self) -> tuple[Node, ...]:
        """Nodes that wait for this one, beyond those it feeds."""
        return tuple(self._control_out)

    def run_after(self, *others: Value) -> None:
        """Add control edges: this node runs after those."""
        for value in others:
            other = value.node if isinstance(value, Port) else value
            if other.graph is not self.graph:
                raise GraphError(
                    f"{other.name} belongs to another graph than {self.name}",
                    advice="control edges join nodes of one graph",
                )
            if other is self:
                raise GraphError(f"{self.name} cannot run after itself")
            self._control_in[other] = None
            other._control_out[self] = None

    def drop_control(self, other: Node) -> None:
        """Remove the control edge from `other`."""
        self._control_in.pop(other, None)
        other._control_out.pop(self, None)

    @property
    def is_dead(self) -> bool:
        """True when nothing takes a value of this node nor waits for it."""
        return not self._control_out and all(not p._uses for p in self.outputs)

    @property
    def predecessors(self) -> Iterator[Node]:
        """Nodes this one needs, through values and control edges."""
        yield from (p.node for p in self._inputs if p is not None)
        yield from self._control_in

    @property
    def successors(self) -> Iterator[Node]:
        """Nodes that need this one, through values and control edges."""
        for port in self.outputs:
            yield from (node for node, _ in port._uses)
        yield from self._control_out

    def erase(self) -> None:
        """Take this node out of its graph; nothing may still need it."""
        if self.graph is None:
            raise GraphError(f"{self.name} is already erased")
        if not self.is_dead:
            users = ", ".join(n.name for n in self.successors)
            raise GraphError(
                f"{self.name} cannot be erased: {users} still need it",
                advice="node.output.replace_uses(...) or drop_control(...) first",
            )
        self.graph._remove(self)

    def _signature(self) -> str:
        return (
            f"prototype: {self.prototype}"
            if self.prototype
            else f"inputs: {', '.join(self.input_names) or 'none'}"
        )

    def __repr__(self) -> str:
        inputs = ", ".join(p.key if p is not None else "-" for p in self._inputs)
        attrs = "".join(f", {k}={v}" for k, v in self.attrs.items())
        return f"<{self.name} = {self.op_type}({inputs}{attrs})>"


def port_of(value: Value) -> Port:
    """The value itself, or the only output of a node."""
    return value if isinstance(value, Port) else value.output


def names_of(prototype: Prototype, arity: Sequence[int]) -> tuple[str, ...]:
    """Slot names: a dynamic input `x` gives x0, x1 and so on."""
    if prototype.plain_inputs is not None:
        return prototype.plain_inputs
    names: list[str] = []
    for spec, count in zip(prototype.inputs, arity, strict=True):
        names.extend((spec.name,) if spec.kind.value != "*" else (f"{spec.name}{i}" for i in range(count)))
    return tuple(names)


def check_attrs(prototype: Prototype, attrs: Mapping[str, object], where: str) -> dict[str, Attr]:
    """The attributes as the prototype wants them; required ones must be there, unknown ones are refused."""
    checked: dict[str, Attr] = {}
    for name, value in attrs.items():
        spec = prototype.attr.get(name)
        if spec is None:
            raise PrototypeError(
                f"{prototype.op_type} has no attribute {name!r}",
                where=where,
                advice=f"prototype: {prototype}",
            )
        checked[name] = Attr.of(spec.kind, value, where=f"attribute {name} of {where} ({prototype})")
    missing = [s.name for s in prototype.attrs if s.is_required and s.name not in checked]
    if missing:
        raise PrototypeError(
            f"{prototype.op_type} needs {', '.join(missing)}", where=where, advice=f"prototype: {prototype}"
        )
    return checked
