"""Blocks of torch's own streams that a graph break cuts: the streams of the program are switched as in eager code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import ops
from air_streams import Outside
from delayed_device import CALLS, MARKS, SIZE, delayed, npu, slow

pytestmark = MARKS
MODES = ["reduce-overhead", "max-autotune"]


def compiled(function: Any, mode: str) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend="air", mode=mode)


class Cut:
    """Blocks that the break inside leaves to eager code, of which Dynamo compiles the helpers alone."""

    def __init__(self) -> None:
        self.side, self.other = npu.Stream(), npu.Stream()

    def cut(self, x: Tensor) -> Tensor:
        self.side.wait_stream(npu.current_stream())
        with npu.stream(self.side):
            y = slow(x)
            torch._dynamo.graph_break()
            y = y * 2
        npu.current_stream().wait_stream(self.side)
        return y

    def cut_in_several(self, x: Tensor) -> Tensor:
        """The context manager of torch_npu sets the stream that is current already, and later another one."""
        self.side.wait_stream(npu.current_stream())
        with self.side:
            torch._dynamo.graph_break()
            with npu.stream(self.side):
                y = slow(x)
            with npu.stream(self.other):
                self.other.wait_stream(self.side)
                y = slow(y) - 5
            self.side.wait_stream(self.other)
            y = y * 2
        npu.current_stream().wait_stream(self.side)
        return y


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["cut", "cut_in_several"])
def test_A42_a_block_that_is_cut_gives_what_eager_gives_and_leaves_its_stream(name: str, mode: str) -> None:
    streams, before = Cut(), npu.current_stream()
    function = compiled(getattr(streams, name), mode)
    for number in range(CALLS):
        with delayed(number):
            found = function(torch.full((SIZE,), float(number), device="npu"))
            assert npu.current_stream() == before
            assert (found.cpu() == (number + 5) * 2).all()


@pytest.mark.parametrize("mode", MODES)
def test_A42_a_stream_that_is_set_is_set_in_each_call_also_where_it_was_current_before(mode: str) -> None:
    side, before = npu.Stream(), npu.current_stream()
    function = compiled(npu.set_stream, mode)
    leaves = compiled(lambda x: (npu.set_stream(side), x + 1)[1], mode)
    x = torch.ones(4, device="npu")
    npu.synchronize()
    try:
        with npu.stream(side):
            leaves(x)
        for _ in range(3):
            npu.set_stream(before)
            assert (leaves(x).cpu() == 2).all()
            assert npu.current_stream() == side
            function(before)
            assert npu.current_stream() == before
    finally:
        npu.set_stream(before)


@pytest.mark.parametrize("mode", MODES)
def test_A42_the_first_call_begins_on_the_stream_that_is_current_though_tracing_sets_another(
    mode: str,
) -> None:
    side, before = npu.Stream(), npu.current_stream()

    def leaves(x: Tensor) -> Tensor:
        y = slow(x)
        side.wait_stream(npu.current_stream())
        npu.set_stream(side)
        return y * 2

    try:
        with delayed(1):
            x = slow(torch.zeros(SIZE, device="npu"))
            assert (compiled(leaves, mode)(x).cpu() == 20).all()
            assert npu.current_stream() == side
    finally:
        npu.set_stream(before)


@pytest.mark.parametrize("mode", MODES)
def test_A42_waits_are_made_by_a_function_that_has_no_tensor(mode: str) -> None:
    side, event = npu.Stream(), npu.Event()
    tagged = ops.npu_create_tagged_event("of a function without a tensor")

    def wait_for_the_stream() -> None:
        npu.current_stream().wait_stream(side)

    def wait_for_the_event() -> None:
        event.wait()

    def record() -> None:
        event.record()

    def record_tagged() -> None:
        ops.npu_tagged_event_record(tagged)

    def on_side(stream_waits: Any, given: Tensor, mark: Any) -> Tensor:
        with npu.stream(side):
            made = slow(given)
            mark()
        stream_waits()
        return made * 2

    pairs = (
        (compiled(wait_for_the_stream, mode), lambda: None),
        (compiled(wait_for_the_event, mode), lambda: event.record(side)),
        (event.wait, compiled(record, mode)),
        (tagged.wait, compiled(record_tagged, mode)),
    )
    for waits, mark in pairs:
        for number in range(CALLS):
            x = torch.full((SIZE,), float(number), device="npu")
            npu.synchronize()
            with delayed(number):
                assert (on_side(waits, x, mark).cpu() == (number + 5) * 2).all()


def test_A42_the_objects_of_a_call_are_its_own_though_another_thread_calls_meanwhile() -> None:
    """torch numbers them for the whole process, so what the other thread does comes here in the middle of a call."""
    side, other, before = npu.Stream(), npu.Stream(), npu.current_stream()
    numbers = {1: side}

    def run() -> None:
        numbers[1] = other

    try:
        Outside(ends=1).around(run, torch.device("npu"), numbers.__getitem__)()
        assert npu.current_stream() == side
    finally:
        npu.set_stream(before)

    mine, theirs = npu.Event(), npu.Event()
    events = {2: mine}
    with delayed(1):
        x = slow(torch.zeros(SIZE, device="npu"))
        Outside(recorded=(2,)).around(
            lambda: events.update({2: theirs}), torch.device("npu"), events.__getitem__
        )()
        mine.synchronize()
        with npu.stream(side):
            assert (x.cpu() == 5).all()
