"""A compiled function on streams and events that the code around it uses as well: what was ordered stays ordered."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import air_backend
from air_backend import ops, scope
from delayed_device import CALLS, MARKS, SIZE, delayed, npu, slow

pytestmark = MARKS

Program = Callable[..., Tensor]


class Streams:
    """Two streams and an event of the program, and functions that use them inside."""

    def __init__(self) -> None:
        self.side, self.other, self.event = npu.Stream(), npu.Stream(), npu.Event()

    # what was given to `side` before the call comes first
    def waits_for_the_stream(self, x: Tensor) -> Tensor:
        npu.current_stream().wait_stream(self.side)
        return x * 2

    def waits_for_an_event(self, x: Tensor) -> Tensor:
        self.event.wait()
        return x * 2

    def waits_on_another_stream(self, x: Tensor) -> Tensor:
        with npu.stream(self.other):
            self.other.wait_event(self.event)
            y = x * 2
        npu.current_stream().wait_stream(self.other)
        return y

    def works_on_the_stream(self, x: Tensor) -> Tensor:
        with npu.stream(self.side):
            y = x * 2
        npu.current_stream().wait_stream(self.side)
        return y

    # what is given to `side` after the call comes afterwards
    def records_an_event(self, x: Tensor) -> Tensor:
        y = slow(x)
        self.event.record()
        return y

    def records_on_another_stream(self, x: Tensor) -> Tensor:
        self.other.wait_stream(npu.current_stream())
        with npu.stream(self.other):
            y = slow(x)
            self.event.record()
        return y

    def leaves_work_on_the_stream(self, x: Tensor) -> Tensor:
        self.side.wait_stream(npu.current_stream())
        with npu.stream(self.side):
            return slow(x)


def before(compiled: Program, streams: Streams, number: float) -> Tensor:
    """Work on `side` makes the input; returns half of the result."""
    x = torch.zeros(SIZE, device="npu")
    npu.synchronize()
    with npu.stream(streams.side):
        x.copy_(slow(torch.full((SIZE,), number - 5, device="npu")))
        streams.event.record()
    return compiled(x) / 2


def after(compiled: Program, streams: Streams, number: float) -> Tensor:
    """Work on `side` reads the result, with no other wait than for the event; returns the number."""
    y = compiled(torch.full((SIZE,), number, device="npu"))
    with npu.stream(streams.side):
        if compiled.__name__ != "leaves_work_on_the_stream":
            streams.side.wait_event(streams.event)
        z = y - 5
    npu.current_stream().wait_stream(streams.side)
    return z


def is_right(around: Callable[..., Tensor], compiled: Program, streams: Streams) -> bool:
    right = True
    for number in range(CALLS):
        with delayed(number):
            right &= bool((around(compiled, streams, float(number)).cpu() == number).all())
    return right


CASES = [
    *((before, name) for name in ("waits_for_the_stream", "waits_for_an_event", "waits_on_another_stream")),
    (before, "works_on_the_stream"),
    *((after, name) for name in ("records_an_event", "records_on_another_stream")),
    (after, "leaves_work_on_the_stream"),
]


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "air"])
@pytest.mark.parametrize(("around", "name"), CASES, ids=[name for _, name in CASES])
def test_A42_the_order_with_the_code_around_a_function_stays(
    around: Callable[..., Tensor], name: str, compiles: bool
) -> None:
    streams = Streams()
    program: Program = getattr(streams, name)
    if compiles:
        program = torch.compile(program, backend="air", options={"mode": "reduce-overhead"}, fullgraph=True)
    assert is_right(around, program, streams)


def test_A42_streams_and_events_that_are_arguments_may_be_others_in_each_call() -> None:
    def program(x: Tensor, side: torch.Stream, made: torch.Event, done: torch.Event) -> Tensor:
        side.wait_event(made)
        with npu.stream(side):
            y = slow(x)
            done.record()
        return y

    compiled = torch.compile(program, backend="air", options={"mode": "reduce-overhead"}, fullgraph=True)
    for number in range(CALLS):
        streams, done = Streams(), npu.Event()

        def call(x: Tensor, streams: Streams = streams, done: torch.Event = done) -> Tensor:
            y = compiled(x, streams.other, streams.event, done)
            npu.current_stream().wait_event(done)
            result: Tensor = (y - 5) * 2
            return result

        with delayed(number):
            assert (before(call, streams, float(number)).cpu() == number).all()


def test_A42_a_pinned_call_stays_in_order() -> None:
    streams = Streams()
    options: Any = {"mode": "reduce-overhead"}
    compiled = torch.compile(streams.waits_for_an_event, backend="air", options=options, fullgraph=True)
    streams.event.record()
    with torch.no_grad():
        pinned: Any = air_backend.pin(compiled, torch.zeros(SIZE, device="npu"))
    pinned.__name__ = "pinned"
    assert is_right(before, pinned, streams)


def test_A42_the_forward_half_of_training_stays_in_order() -> None:
    streams = Streams()
    weight = torch.ones(SIZE, device="npu", requires_grad=True)

    def program(x: Tensor) -> Tensor:
        streams.event.wait()
        return x * weight * 2

    compiled = torch.compile(program, backend="air", options={"mode": "reduce-overhead"}, fullgraph=True)
    assert is_right(before, lambda x: compiled(x).detach(), streams)


def test_A42_a_stream_that_was_current_when_a_function_was_compiled_stays_in_order_when_another_is() -> None:
    streams = Streams()
    compiled = torch.compile(streams.works_on_the_stream, backend="air", options={"mode": "reduce-overhead"})
    with npu.stream(streams.side):
        for _ in range(2):
            compiled(torch.zeros(SIZE, device="npu"))
    assert is_right(before, compiled, streams)


def test_S21_markers_keep_the_streams_of_a_graph_on_a_device() -> None:
    def marked(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("marked"):
            y = slow(x)
            made = ops.record()
        ops.wait([made])
        return y * 2

    compiled = torch.compile(marked, backend="air", options={"mode": "reduce-overhead"}, fullgraph=True)
    for number in range(CALLS):
        with delayed(number), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = compiled(torch.full((SIZE,), float(number), device="npu"))
            assert (found.cpu() == (number + 5) * 2).all()
