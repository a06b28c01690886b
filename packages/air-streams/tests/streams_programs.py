"""Small multi-stream programs as plain data, and the graphs they stand for.

A program is a tuple of operations in the order in which the host issues them. The judges read the data; the
analysis reads the graph. They meet nowhere else.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

import air_streams  # noqa: F401 -- declares the operators

ops = torch.ops.air_streams
aten = torch.ops.aten


@dataclass(frozen=True)
class Op:
    """`kind`: read, write, update (read and write), move (read `target`, write `other`), record, wait.

    `low`, `high`: which elements of the storage are touched, through a view; all of them when `high` is 0.
    """

    stream: int
    kind: str
    target: int
    other: int = 0
    low: int = 0
    high: int = 0


Program = tuple[Op, ...]

WORK = ("read", "write", "update", "move")
STORAGE_SIZE = 4


Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def on_stream(graph: Graph, stream: int | str, call: Call) -> Node:
    """One node on a stream: 0 is the entry stream, any other the stream with that tag."""
    if stream == 0:
        return graph.call_function(*call)
    graph.call_function(ops.stream_enter.default, (str(stream),))
    node = graph.call_function(*call)
    graph.call_function(ops.stream_exit.default, (str(stream),))
    return node


def graph_of(program: Sequence[Op], storages: int, *, values: bool = False) -> tuple[Graph, list[Node]]:
    """The graph of a program, and the node of each operation. `values` gives nodes tensors, for byte ranges."""
    graph = Graph()
    bases = [graph.placeholder(f"s{number}") for number in range(storages)]
    if values:
        for base in bases:
            base.meta["val"] = torch.zeros(STORAGE_SIZE)
    nodes = []
    for number, op in enumerate(program):
        target = _operand(graph, bases[op.target], op, values) if op.kind in WORK else None
        nodes.append(on_stream(graph, op.stream, _call(op, number, target, bases)))
    graph.output(())
    return graph, nodes


def _operand(graph: Graph, base: Node, op: Op, values: bool) -> Node:
    if not op.high:
        return base
    view = graph.call_function(aten.slice.Tensor, (base, 0, op.low, op.high))
    if values:
        view.meta["val"] = base.meta["val"][op.low : op.high]
    return view


def _call(op: Op, number: int, target: Node | None, bases: list[Node]) -> Call:
    match op.kind:
        case "read":
            return aten.sum.default, (target,), {}
        case "write":
            return aten.fill_.Scalar, (target, number + 1), {}
        case "update":
            return aten.add_.Scalar, (target, number + 1), {}
        case "move":
            return aten.neg.out, (target,), {"out": bases[op.other]}
        case "record":
            return ops.event_record.default, (str(op.target),), {}
        case _:
            return ops.event_wait.default, (str(op.target),), {}


def random_program(
    source: random.Random, *, length: int, streams: int, events: int, storages: int, slices: bool = False
) -> Program:
    """A random program; waits mostly follow a record of their event, so that both verdicts are common."""
    program: list[Op] = []
    recorded: list[int] = []
    for _ in range(length):
        stream = source.randrange(streams)
        roll = source.random()
        if roll < 0.22:
            event = source.randrange(events)
            recorded.append(event)
            program.append(Op(stream, "record", event))
        elif roll < 0.5 and (recorded or source.random() < 0.1):
            event = recorded[-1] if recorded and source.random() < 0.8 else source.randrange(events)
            program.append(Op(stream, "wait", event))
        else:
            program.append(_random_work(source, stream, storages, slices))
    return tuple(program)


def random_chain(
    source: random.Random, *, length: int, streams: int, events: int, storages: int, slices: bool = False
) -> Program:
    """A random program that hops from stream to stream, mostly with a record and a wait: often right, by a hair."""
    program: list[Op] = []
    stream, hops = source.randrange(streams), 0
    while len(program) < length:
        if source.random() < 0.5:
            program.append(_random_work(source, stream, storages, slices))
            continue
        before, stream = stream, source.randrange(streams)
        if source.random() < 0.85:
            event = hops % events
            hops += 1
            program.extend((Op(before, "record", event), Op(stream, "wait", event)))
    return tuple(program[:length])


def _random_work(source: random.Random, stream: int, storages: int, slices: bool) -> Op:
    kind = source.choice(
        ("read", "write", "write", "update") if slices else ("read", "read", "write", "update", "move")
    )
    target = source.randrange(storages)
    if kind == "move":
        if storages == 1:
            return Op(stream, "read", target)
        return Op(stream, kind, target, (target + source.randrange(1, storages)) % storages)
    if slices and source.random() < 0.8:
        low = source.randrange(STORAGE_SIZE)
        return Op(stream, kind, target, low=low, high=source.randrange(low + 1, STORAGE_SIZE + 1))
    return Op(stream, kind, target)


def random_dataflow(source: random.Random, *, length: int, streams: int, inputs: int) -> Graph:
    """A random graph that computes new values and changes old ones, on random streams, without one wait."""
    graph = Graph()
    values = [graph.placeholder(f"s{number}") for number in range(inputs)]
    for number in range(length):
        recent = values[-5:]
        first, second = source.choice(recent), source.choice(recent)
        roll = source.random()
        if roll < 0.6:
            call: Call = (
                source.choice((aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor)),
                (first, second),
                {},
            )
            values.append(on_stream(graph, source.randrange(streams), call))
        elif roll < 0.8:
            on_stream(graph, source.randrange(streams), (aten.add_.Tensor, (first, second), {}))
        else:
            on_stream(graph, source.randrange(streams), (aten.fill_.Scalar, (first, number), {}))
    graph.output(tuple(source.sample(values, 2)))
    return graph


def random_views(source: random.Random, *, length: int, streams: int, inputs: int, size: int) -> Graph:
    """A random graph on random streams, without one wait, whose values are also views, parts and several results."""
    graph = Graph()
    drawn = _Values([(graph.placeholder(f"s{number}"), size) for number in range(inputs)], size)
    for number in range(length):
        stream = source.randrange(streams)
        made = _random_call(source, drawn, number)
        if made is None:
            continue
        call, sizes = made
        node = on_stream(graph, stream, call)
        if len(sizes) < 2:
            drawn.known.extend((node, each) for each in sizes)
        else:
            parts = [graph.call_function(operator.getitem, (node, place)) for place in range(len(sizes))]
            drawn.known.extend(zip(parts, sizes, strict=True))
    graph.output(tuple(node for node, _ in source.sample(drawn.known, 2)))
    return graph


@dataclass
class _Values:
    """Values of a program with their sizes, and the largest size."""

    known: list[tuple[Node, int]]
    largest: int

    def recent(self, source: random.Random) -> tuple[Node, Node, int]:
        """Two values of one size; the second may be the first."""
        first, size = source.choice(self.known[-7:])
        return first, source.choice([node for node, other in self.known[-7:] if other == size]), size


def _random_call(source: random.Random, drawn: _Values, number: int) -> tuple[Call, tuple[int, ...]] | None:
    """A call, and the sizes of the new values that it gives: none for a write, several for a list."""
    first, second, size = drawn.recent(source)
    half, kind = size // 2, source.random()
    if kind < 0.35:
        op = source.choice((aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor))
        return (op, (first, second), {}), (size,)
    if kind < 0.5:
        return (aten.add_.Tensor, (first, second), {}), ()
    if kind < 0.62:
        return (aten.fill_.Scalar, (first, number), {}), ()
    if kind < 0.76 and half:
        low = source.choice((0, size - half))
        return (aten.slice.Tensor, (first, 0, low, low + half), {}), (half,)
    if kind < 0.84 and size <= drawn.largest:
        return (aten.cat.default, ([first, second],), {}), (2 * size,)
    if kind < 0.9 and first is not second:
        return (aten.neg.out, (first,), {"out": second}), ()
    if kind < 0.95 and half:
        return (aten.split.Tensor, (first, half), {}), (half, half)
    return None


def reachable(program: Program) -> set[tuple[int, int]]:
    """Pairs of operations ordered by a path of stream order and waits: closure by force, no clocks."""
    edges: set[tuple[int, int]] = set()
    last: dict[int, int] = {}
    recorded: dict[int, int] = {}
    for number, op in enumerate(program):
        if op.stream in last:
            edges.add((last[op.stream], number))
        last[op.stream] = number
        if op.kind == "record":
            recorded[op.target] = number
        elif op.kind == "wait" and op.target in recorded:
            edges.add((recorded[op.target], number))
    paths = set(edges)
    for middle in range(len(program)):
        before = [a for a, b in paths if b == middle]
        after = [b for a, b in paths if a == middle]
        paths.update((a, b) for a in before for b in after)
    return paths
