"""A compiled function with native streams inside a capture that the program makes itself, as servers do."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from delayed_device import MARKS, SIZE, air_sim, npu
from native_programs import EVENTS, STREAMS, Part, Writer, in_three, in_turn, on_cpu, on_npu

pytestmark = MARKS

MODES = ["reduce-overhead", "max-autotune"]
REPLAYS = 4
SIZES = (4, 1_000, 100_000)
#: What torch refuses to trace.
REFUSED = "An event was recorded on a stream where a graph input"
Program = Callable[..., Any]


@dataclass
class Captured:
    """A capture of the program's, the memory it reads and what it writes."""

    graph: Any
    given: Sequence[Tensor]
    made: Sequence[Tensor]

    @classmethod
    def of(cls, program: Program, given: Sequence[Tensor]) -> Captured:
        graph = npu.NPUGraph()
        npu.synchronize()
        with npu.graph(graph, stream=npu.Stream()):
            made = program(*given)
        return cls(graph, given, made)

    def replayed(self, given: Sequence[Tensor]) -> list[Tensor]:
        for value, new in zip(self.given, given, strict=True):
            value.copy_(new)
        npu.synchronize()
        self.graph.replay()
        npu.synchronize()
        return [value.cpu() for value in (*self.made, *self.given)]


def compiled(program: Program, mode: str) -> Program:
    options: Any = {"mode": mode}
    return torch.compile(program, backend="air", options=options, dynamic=False, fullgraph=True)


@pytest.mark.parametrize("warm", [True, False], ids=["called before", "compiled inside"])
@pytest.mark.parametrize("mode", MODES)
def test_A42_work_that_a_function_leaves_on_a_stream_is_followed_by_the_code_after_it(
    mode: str, warm: bool
) -> None:
    side = npu.Stream()

    def leaves_work(x: Tensor) -> Tensor:
        side.wait_stream(npu.current_stream())
        with npu.stream(side):
            for _ in range(5):
                x = x + 1
            return x

    function = compiled(leaves_work, mode)

    def program(x: Tensor) -> tuple[Tensor]:
        y = function(x)
        with npu.stream(side):
            z = y * 2
        npu.current_stream().wait_stream(side)
        return (z,)

    x = torch.zeros(SIZE, device="npu")
    if warm:
        program(x)
    captured = Captured.of(program, [x])
    air_sim.change(delay_us=1_000, seed=3)
    for number in range(REPLAYS):
        given = torch.full((SIZE,), float(number))
        z, _ = captured.replayed([given])
        assert torch.equal(z, (given + 5) * 2)


@pytest.mark.parametrize("mode", MODES)
def test_A42_a_stream_that_takes_no_part_in_the_capture_is_not_pulled_into_it(mode: str) -> None:
    """What the graph joins needs no further join, and what it does not touch stays outside."""
    side, idle = npu.Stream(), npu.Stream()

    def joins(x: Tensor) -> Tensor:
        side.wait_stream(idle)
        side.wait_stream(npu.current_stream())
        with npu.stream(side):
            y = x + 1
        npu.current_stream().wait_stream(side)
        return y * 2

    function = compiled(joins, mode)
    captured = Captured.of(lambda x: (function(x),), [torch.zeros(SIZE, device="npu")])
    with npu.stream(idle):
        assert not npu.is_current_stream_capturing()
    given = torch.arange(float(SIZE))
    made, _ = captured.replayed([given])
    assert torch.equal(made, (given + 1) * 2)


def difference_of(seed: int, mode: str) -> str | None:
    """Draws a program in three parts, and compiles the middle one; says which replay of it gave something else."""
    source = random.Random(seed)
    inputs, size = source.randint(2, 3), source.choice(SIZES)
    writer = Writer(source, inputs, size)
    writer.program(source.randint(3, 9))
    parts = in_three(writer)
    streams, events = [npu.Stream() for _ in range(STREAMS)], [npu.Event() for _ in range(EVENTS)]
    delays = {"delay_us": source.choice((0, 200, 1_000)), "launch_delay_us": source.choice((0, 50, 300))}
    first, middle, last = (on_npu(part.text, streams, events) for part in parts)
    warm = source.random() < 0.5

    def host(call: int) -> list[Tensor]:
        return [torch.arange(size, dtype=torch.int32) % 7 + 1 + number + call for number in range(inputs)]

    def wrong_replay(functions: Sequence[Program]) -> str | None:
        def program(*given: Tensor) -> Any:
            for stream in streams:
                stream.wait_stream(npu.current_stream())
            made = in_turn(parts, functions)(*given)
            for stream in streams:
                npu.current_stream().wait_stream(stream)
            return made

        if warm:
            program(*(value.to("npu") for value in host(0)))
        captured = Captured.of(program, [value.to("npu") for value in host(0)])
        air_sim.change(seed=seed + 1, **delays)
        wrong = next((call for call in range(REPLAYS) if not is_right(captured, parts, host(call))), None)
        air_sim.change(seed=0, delay_us=0, launch_delay_us=0)
        return None if wrong is None else f"program {seed}, replay {wrong}\n{parts}"

    torch._dynamo.reset()
    with suppress(RuntimeError):  # a program that cannot be captured as it is, or is wrong then
        if wrong_replay([first, middle, last]) is None:
            return unless_refused(lambda: wrong_replay([first, compiled(middle, mode), last]))
    return None


def is_right(captured: Captured, parts: Sequence[Part], given: Sequence[Tensor]) -> bool:
    found = captured.replayed(given)
    expected = in_turn(parts, [on_cpu(part.text) for part in parts])(*given)
    return all(map(torch.equal, found, [*expected, *given]))


def unless_refused(answer: Callable[[], str | None]) -> str | None:
    """The answer, or none where torch cannot trace the program; the end of the capture then fails as well."""
    try:
        return answer()
    except Exception as error:
        cause: BaseException = error
        while cause.__context__ is not None:
            cause = cause.__context__
        return None if REFUSED in str(cause) else f"{type(cause).__name__}: {cause}"


@pytest.mark.parametrize("programs", [range(6), pytest.param(range(6, 150), marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", MODES)
def test_A42_random_programs_inside_a_capture_give_what_one_stream_gives(mode: str, programs: range) -> None:
    found = [difference_of(seed, mode) for seed in programs]
    assert [text for text in found if text] == []
