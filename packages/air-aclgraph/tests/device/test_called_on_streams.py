"""Graphs that are called on several streams in turn: they share memory, and the caller orders only what it can see."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from aclgraph_backend import executable

air_sim = pytest.importorskip("air_sim")
pytestmark = [
    pytest.mark.npu("air-sim delays what the device does"),
    pytest.mark.usefixtures("in_order_again"),
]

SIZES = (4, 1_000, 100_000)
npu: Any = getattr(torch, "npu", None)


def scaled(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x * 2 + y, x - y


def chained(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x + 1
    for _ in range(4):
        z = z * 2 - y
    return z, y + 0


def written(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    x.add_(y)
    return (x * 3,)


def cut(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return torch.cat((x, y))[: x.shape[0]] - x, x + y


FUNCTIONS = (scaled, chained, written, cut)


@dataclass(eq=False)
class Value:
    """A tensor of the device, what it should hold, and which streams have written and read it."""

    on_device: Tensor
    on_host: Tensor
    writer: Any
    readers: set[Any] = field(default_factory=set)


class Caller:
    """Calls graphs on streams at random, with the waits that a careful program has, and no other."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.size = self.source.choice(SIZES)
        self.streams = [npu.current_stream(), *(npu.Stream() for _ in range(3))]
        outputs = self.source.choice(("kept", "clone"))
        examples = [torch.zeros(self.size, dtype=torch.int32, device="npu") for _ in range(2)]
        self.graphs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
            (function, executable(function, *examples, device="npu", air__outputs=outputs))
            for function in self.source.sample(FUNCTIONS, 2)
        ]
        self.values: list[Value] = []

    def order(self, stream: Any, *values: Value) -> None:
        """The stream waits for those that have written and read the values."""
        for value in values:
            for other in {value.writer, *value.readers} - {stream}:
                stream.wait_stream(other)

    def new(self, stream: Any, number: int) -> None:
        host = torch.arange(self.size, dtype=torch.int32) % 11 + number
        self.values.append(Value(host.to("npu") + 0, host, stream))

    def read(self, stream: Any) -> None:
        value = self.source.choice(self.values)
        self.order(stream, value)
        value.readers.add(stream)
        self.values.append(Value(value.on_device + 1, value.on_host + 1, stream))

    def call(self, stream: Any) -> None:
        function, run = self.source.choice(self.graphs)
        given = self.source.sample(self.values, 2)
        self.order(stream, *given)
        made = run(*(value.on_device for value in given))
        expected = function(*(value.on_host for value in given))
        for value in given:
            value.writer, value.readers = stream, set()
        self.values.extend(Value(*pair, stream) for pair in zip(made, expected, strict=True))

    def run(self, steps: int) -> bool:
        """Whether all values are right in the end."""
        for number in range(steps):
            stream = self.source.choice(self.streams)
            with npu.stream(stream):
                kind = self.source.random()
                if len(self.values) < 3 or kind < 0.2:
                    self.new(stream, number)
                elif kind < 0.8:
                    self.call(stream)
                else:
                    self.read(stream)
        npu.synchronize()
        return all(torch.equal(value.on_device.cpu(), value.on_host) for value in self.values)


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 500), marks=pytest.mark.slow)])
def test_two_graphs_called_on_random_streams_give_what_eager_gives(seeds: range) -> None:
    wrong = []
    for seed in seeds:
        caller = Caller(seed)
        air_sim.change(seed=seed, delay_us=random.Random(seed).choice((0, 300, 2_000)))
        if not caller.run(caller.source.randint(8, 24)):
            wrong.append(seed)
    assert wrong == []


def test_a_graph_waits_for_another_one_on_another_stream_also_where_its_own_last_call_was_on_this_one() -> (
    None
):
    """Graphs share a pool: what the one computes lies where the other one does."""
    x = torch.ones(100_000, dtype=torch.int32, device="npu")
    first, second = (executable(chained, x, x.clone(), device="npu") for _ in range(2))
    here, there = npu.Stream(), npu.Stream()
    kept = []
    npu.synchronize()
    air_sim.change(delay_us=2_000, seed=1)
    for number in range(6):
        for graph, stream in ((first, here), (second, there), (first, here)):
            with npu.stream(stream):
                kept.append((number, graph(x * number, x)))
    npu.synchronize()
    for number, (made, _) in kept:
        expected, _ = chained(torch.tensor(number, dtype=torch.int32), torch.tensor(1, dtype=torch.int32))
        assert (made.cpu() == expected).all()
