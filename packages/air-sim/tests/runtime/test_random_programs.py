"""Random programs over several streams: captured and replayed in random legal order, they equal eager.

A program is a list of operations on a few buffers, each on a stream of its own choice; events are put exactly where
buffers are shared.  The opposite is tested too: with the events left out, the random order must show it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import air_sim

npu = pytest.importorskip("torch_npu").npu

pytestmark = [pytest.mark.npu, pytest.mark.timeout(900)]

BUFFERS, STREAMS, SIZE = 5, 3, 16


@dataclass(frozen=True)
class Step:
    kind: str
    target: int
    left: int
    right: int
    stream: int


def random_program(dice: random.Random) -> list[Step]:
    def step() -> Step:
        return Step(
            dice.choice(["mean", "max", "sub", "copy"]),
            dice.randrange(BUFFERS),
            dice.randrange(BUFFERS),
            dice.randrange(BUFFERS),
            dice.randrange(STREAMS),
        )

    return [step() for _ in range(dice.randint(3, 14))]


def compute(step: Step, buffers: list[torch.Tensor]) -> None:
    target, left, right = buffers[step.target], buffers[step.left], buffers[step.right]
    if step.kind == "mean":
        torch.add(left, right, out=target)
        target.mul_(0.5)
    elif step.kind == "max":
        torch.maximum(left, right, out=target)
    elif step.kind == "sub":
        torch.sub(left, right, out=target)
        target.mul_(0.25)
    else:
        target.copy_(left)


def run_on_streams(program: list[Step], buffers: list[torch.Tensor], streams: list[Any], wait: bool) -> None:
    """Each step on its stream; an event wherever it touches what another stream touched."""
    origin = npu.current_stream()
    for stream in streams:
        stream.wait_stream(origin)
    touched: list[set[int]] = [
        set() for _ in range(BUFFERS)
    ]  # streams that used the buffer since its last write
    for step in program:
        stream = streams[step.stream]
        used = {step.target, step.left, step.right}
        before = {other for buffer in used for other in touched[buffer]} - {step.stream}
        for other in sorted(before) if wait else ():
            stream.wait_stream(streams[other])
        with npu.stream(stream):
            compute(step, buffers)
        for buffer in used:
            touched[buffer].add(step.stream)
        touched[step.target] = {step.stream}
    for stream in streams:
        origin.wait_stream(stream)


def mismatches(
    seed: int,
    count: int,
    run: Callable[[list[Step], list[torch.Tensor]], Any],
    buffers: list[torch.Tensor],
) -> list[int]:
    dice, wrong = random.Random(seed), []
    generator = torch.Generator().manual_seed(seed)
    for number in range(count):
        program = random_program(dice)
        graph = run(program, buffers)
        start = torch.randn(BUFFERS, SIZE, generator=generator)
        expected = [row.clone() for row in start]
        for step in program:
            compute(step, expected)
        for buffer, row in zip(buffers, start, strict=True):
            buffer.copy_(row)
        npu.synchronize()
        graph.replay()
        npu.synchronize()
        if not all(torch.equal(b.cpu(), e) for b, e in zip(buffers, expected, strict=True)):
            wrong.append(number)
    return wrong


@pytest.mark.parametrize(
    ("wait", "programs"),
    [(True, 300), (False, 150), pytest.param(True, 3000, marks=pytest.mark.slow)],
    ids=["with events", "without events", "many with events"],
)
def test_captured_programs_equal_eager_exactly_when_their_events_are_there(
    device: str, wait: bool, programs: int
) -> None:
    buffers = [torch.zeros(SIZE, device=device) for _ in range(BUFFERS)]
    streams = [npu.Stream() for _ in range(STREAMS)]
    capture_stream = npu.Stream()
    npu.synchronize()
    air_sim.change(seed=20, replay_threads=3)

    def capture(program: list[Step], on: list[torch.Tensor]) -> Any:
        graph = npu.NPUGraph()
        with npu.stream(capture_stream):
            graph.capture_begin()
            run_on_streams(program, on, streams, wait)
            graph.capture_end()
        return graph

    wrong = mismatches(1, programs, capture, buffers)
    assert (wrong == []) if wait else len(wrong) > 3


def test_eager_programs_equal_the_cpu_under_random_delays(device: str) -> None:
    buffers = [torch.zeros(SIZE, device=device) for _ in range(BUFFERS)]
    streams = [npu.Stream() for _ in range(STREAMS)]
    npu.synchronize()
    air_sim.change(seed=7, delay_us=200)
    dice = random.Random(2)
    for _ in range(100):
        program = random_program(dice)
        start = torch.randn(BUFFERS, SIZE)
        expected = [row.clone() for row in start]
        for step in program:
            compute(step, expected)
        for buffer, row in zip(buffers, start, strict=True):
            buffer.copy_(row)
        run_on_streams(program, buffers, streams, wait=True)
        for buffer, row in zip(buffers, expected, strict=True):
            assert torch.equal(buffer.cpu(), row)
