"""Random programs on native streams, as the text that a user would write; the waits are right, or left out.

The text runs on the CPU as well, with streams that do nothing, which gives the expected results. Variables live until
the function returns, so no program needs `record_stream`.
"""

from __future__ import annotations

import itertools
import linecache
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

ENTRY = "entry = torch.npu.current_stream()"
STREAMS = 3
EVENTS = 3
_files = itertools.count()


@dataclass
class _Memory:
    """On which stream its elements were last written and read, and as which work of that stream."""

    written: dict[int, int] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    is_input: bool = False


@dataclass
class _Value:
    name: str
    size: int
    memory: _Memory


class Writer:
    """Draws a program line by line, and knows what each stream can be sure of."""

    def __init__(
        self, source: random.Random, inputs: int, size: int, *, waits: bool = True, trained: bool = False
    ) -> None:
        self.source, self.size = source, size
        self.waits, self.trained = waits, trained
        self.done = [0] * (STREAMS + 1)  # how much work each stream was given
        self.known = [[0] * (STREAMS + 1) for _ in self.done]
        self.lines: list[str] = []
        self.inputs = [f"x{number}" for number in range(inputs)]
        self.values = [_Value(name, size, _Memory(is_input=True)) for name in self.inputs]
        self.names = (f"v{number}" for number in itertools.count())
        self.recorded = (f"r{number}" for number in itertools.count())
        self.steps: list[int] = []  # the lines with which the steps outside all blocks begin
        self.open = [0]  # the streams whose blocks are open, the current one last; 0 is the caller's

    def line(self, text: str) -> None:
        self.lines.append("    " * len(self.open) + text)

    def stream(self, number: int) -> str:
        """A way to write a stream."""
        if number == self.open[-1] and (number == 0 or self.source.random() < 0.5):
            return "torch.npu.current_stream()"
        return f"s{number}" if number else "entry"

    def wait(self, waiting: int, on: int) -> None:
        """One of the ways in which a stream waits for another."""
        source, first, second = self.source, self.stream(waiting), self.stream(on)
        way = source.random()
        if way < 0.3:
            self.line(f"{first}.wait_stream({second})")
        elif way < 0.5:
            name = next(self.recorded)
            self.line(f"{name} = {second}.record_event()")
            self.line(source.choice((f"{first}.wait_event({name})", f"{name}.wait({first})")))
        else:
            event = f"e{source.randrange(EVENTS)}"
            self.line(source.choice([f"{event}.record({second})", *self._short(on, f"{event}.record()")]))
            ways = [f"{event}.wait({first})", f"{first}.wait_event({event})"]
            self.line(source.choice([*ways, *self._short(waiting, f"{event}.wait()")]))
        self.known[waiting] = [max(both) for both in zip(self.known[waiting], self.known[on], strict=True)]

    def _short(self, stream: int, text: str) -> Sequence[str]:
        return (text,) if stream == self.open[-1] else ()

    def order(self, stream: int, *needed: dict[int, int]) -> None:
        """Waits for what the stream does not know to be done."""
        for other, when in [item for table in needed for item in table.items()]:
            if self.waits and other != stream and self.known[stream][other] < when:
                self.wait(stream, other)

    def work(self, reads: Sequence[_Value], writes: _Value, text: str) -> None:
        """A line that computes on the current stream."""
        stream = self.open[-1]
        self.order(stream, *(value.memory.written for value in reads))
        self.order(stream, writes.memory.written, writes.memory.read)
        self.line(text)
        self.done[stream] += 1
        self.known[stream][stream] = self.done[stream]
        for value in reads:
            value.memory.read[stream] = self.done[stream]
        writes.memory.written[stream] = self.done[stream]

    def step(self) -> None:
        """An operation, a write, a part, or two values in one."""
        source, recent = self.source, self.values[-6:]
        a = source.choice(recent)
        b = source.choice([value for value in recent if value.size == a.size])
        kind = source.random()
        if kind < 0.6:
            made = self.made(a.size)
            pair = f"{a.name} {source.choice('+-*')} {b.name}"
            text = source.choice((pair, f"torch.relu({pair})", f"{a.name} - {source.randrange(1, 4)}"))
            self.work((a, b), made, f"{made.name} = {text}")
        elif kind < 0.8 and not (a.memory.is_input and (self.trained or source.random() < 0.9)):
            writes = ("add_", "sub_") if self.trained else ("add_", "sub_", "mul_")
            self.work((a, b), a, f"{a.name}.{source.choice(writes)}({b.name})")
        elif kind < 0.9 and a.size > 1 and not self.trained:
            low = source.choice((0, a.size - a.size // 2))
            part = self.made(a.size // 2, a.memory)
            self.line(f"{part.name} = {a.name}[{low} : {low + part.size}]")
        elif a.size <= self.size:
            made = self.made(2 * a.size)
            self.work((a, b), made, f"{made.name} = torch.cat(({a.name}, {b.name}))")

    def made(self, size: int, memory: _Memory | None = None) -> _Value:
        """A new value, which later lines may read."""
        self.values.append(_Value(next(self.names), size, memory or _Memory()))
        return self.values[-1]

    def block(self, stream: int) -> None:
        """Some operations on a stream, perhaps with another block within."""
        name = f"s{stream}" if stream else "entry"
        native = (
            stream and stream not in self.open and self.source.random() < 0.5
        )  # torch enters one object once
        self.line(f"with {name}:" if native else f"with torch.npu.stream({name}):")
        self.open.append(stream)
        for _ in range(self.source.randint(1, 4)):
            if len(self.open) < 4 and self.source.random() < 0.15:
                self.block(self.source.randrange(STREAMS + 1))
            else:
                self.step()
        self.line("pass")
        self.open.pop()

    def program(self, length: int) -> str:
        """The text of a function of the inputs."""
        self.line(ENTRY)
        for _ in range(length):
            self.steps.append(len(self.lines))
            stream = self.source.randrange(STREAMS + 1)
            if stream:
                self.block(stream)
            else:
                self.step()
        outputs = self.source.sample(self.values, 2)
        self.order(0, *(value.memory.written for value in (*outputs, *self.values[: len(self.inputs)])))
        self.order(0, dict(enumerate(self.done)))  # the variables end here
        names = [value.name for value in outputs]
        self.line(
            f"return {names[0]}.sum() + {names[1]}.sum()"
            if self.trained
            else f"return {names[0]}, {names[1]}"
        )
        return "\n".join((f"def program({', '.join(self.inputs)}):", *self.lines, ""))


@dataclass(frozen=True)
class Part:
    """A function of some values that gives some, or what the whole program gives."""

    text: str
    takes: Sequence[str]
    gives: Sequence[str]


def in_turn(parts: Sequence[Part], functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """The functions of all parts, one after the other."""

    def run(*values: Any) -> Any:
        known = dict(zip(parts[0].takes, values, strict=True))
        for part, function in zip(parts, functions, strict=True):
            given = function(*(known[name] for name in part.takes))
            if part.gives:
                known.update(zip(part.gives, given, strict=True))
        return given

    return run


def in_three(writer: Writer) -> list[Part]:
    """What was drawn, as three functions that are called in turn: one may be compiled, and the others not.

    Each takes the values that are known by then and read in it or later, and gives those and its own. The last one
    gives what the whole function gives.
    """
    first, second = sorted(writer.source.sample(writer.steps, 2))
    lines = writer.lines[1:]
    parts = [lines[: first - 1], lines[first - 1 : second - 1], lines[second - 1 :]]
    known, made_parts = list(writer.inputs), []
    for number, part in enumerate(parts):
        later = set(re.findall(r"\b[vx]\d+\b", "\n".join(itertools.chain(*parts[number:]))))
        taken = [name for name in known if name in later or name in writer.inputs]
        made = re.findall(r"^\s*(v\d+) =", "\n".join(part), re.MULTILINE)
        known = [*taken, *made]
        ends = [] if number == 2 else [f"    return {', '.join(known)},"]
        text = "\n".join((f"def program({', '.join(taken)}):", f"    {ENTRY}", *part, *ends, ""))
        made_parts.append(Part(text, taken, known if ends else ()))
    return made_parts


class _Idle:
    """A stream or an event that does nothing."""

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, *_: object) -> None:
        """Nothing was changed."""

    def __getattr__(self, name: str) -> Callable[..., _Idle]:
        return lambda *_: self


def on_cpu(text: str) -> Callable[..., Any]:
    """The function of a text, line by line."""
    idle = _Idle()
    npu = SimpleNamespace(stream=lambda _: idle, current_stream=lambda: idle)
    torch_like = SimpleNamespace(npu=npu, relu=torch.relu, cat=torch.cat)
    return _function(text, torch_like, [idle] * STREAMS, [idle] * EVENTS)


def on_npu(text: str, streams: Sequence[torch.Stream], events: Sequence[torch.Event]) -> Callable[..., Any]:
    """The function of a text on these streams, with these events."""
    return _function(text, torch, streams, events)


def _function(
    text: str, torch_like: object, streams: Sequence[object], events: Sequence[object]
) -> Callable[..., Any]:
    file = f"<native program {next(_files)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"torch": torch_like}
    names.update((f"s{number}", stream) for number, stream in enumerate(streams, 1))
    names.update((f"e{number}", event) for number, event in enumerate(events))
    exec(compile(text, file, "exec"), names)
    program: Callable[..., Any] = names["program"]
    return program
