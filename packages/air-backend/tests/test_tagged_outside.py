"""What a compiled function waits for by tags and is given: tensors, markers and events from before the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from air_streams import ops, scope
from delayed_device import CALLS, MARKS, SIZE, delayed, npu

pytestmark = MARKS

event = ops.npu_create_tagged_event("made outside")
done = ops.npu_create_tagged_event("done")


def waits_for_a_tensor(x: Tensor, marker: Tensor) -> Tensor:
    ops.wait([x])
    return x * 2


def waits_for_a_marker(x: Tensor, marker: Tensor) -> Tensor:
    ops.wait([marker])
    return x * 2


def waits_for_an_event(x: Tensor, marker: Tensor) -> Tensor:
    ops.npu_tagged_event_wait(event)
    return x * 2


@pytest.mark.filterwarnings("ignore::air_streams.StreamRaceWarning", "ignore::UserWarning")
@pytest.mark.parametrize("mode", [None, "reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("function", [waits_for_a_tensor, waits_for_a_marker, waits_for_an_event])
def test_S19_what_is_waited_for_and_comes_from_before_the_call_is_there(
    function: Callable[[Tensor, Tensor], Tensor], mode: str | None
) -> None:
    run = function if mode is None else torch.compile(function, backend="air", mode=mode, dynamic=False)
    maker = npu.default_stream() if function is waits_for_a_tensor else npu.Stream()
    caller, right = npu.Stream(), True
    for number in range(CALLS):
        x = torch.zeros(SIZE, device="npu")
        npu.synchronize()
        with delayed(number):
            with npu.stream(maker):
                made = torch.full((SIZE,), float(number), device="npu")
                for _ in range(5):
                    made = made + 1
                x.copy_(made)
                marker = ops.record()
                ops.npu_tagged_event_record(event)
            with npu.stream(caller):
                right &= bool((run(x, marker).cpu() == (number + 5) * 2).all())
    assert right


def on_a_side_stream(x: Tensor) -> Tensor:
    y = x + 1
    ops.npu_tagged_event_record(event)
    with scope.npu_stream_switch("of all calls"):
        ops.npu_tagged_event_wait(event)
        z = y * 2
        ops.npu_tagged_event_record(done)
    ops.npu_tagged_event_wait(done)
    for _ in range(5):
        z = z + 0
    return z + y


@pytest.mark.parametrize("option", [{}, {"debug.run_eagerly": True}], ids=["captured", "run eagerly"])
def test_S19_calls_from_different_streams_share_a_side_stream_and_stay_right(option: dict[str, Any]) -> None:
    options: Any = {"mode": "reduce-overhead", **option}
    compiled = torch.compile(on_a_side_stream, backend="air", options=options, dynamic=False)
    callers = [npu.Stream() for _ in range(4)]
    inputs = [torch.full((SIZE,), float(number), device="npu") for number in range(24)]
    npu.synchronize()
    results = []
    with delayed(1, by_us=1_000):
        for number, x in enumerate(inputs):
            with npu.stream(callers[number % 4]):
                results.append(compiled(x))
        npu.synchronize()
    assert [number for number, y in enumerate(results) if not (y.cpu() == (number + 1) * 3).all()] == []


@pytest.mark.filterwarnings("ignore::air_streams.StreamRaceWarning", "ignore::UserWarning")
def test_S19_a_wait_for_an_event_from_before_a_capture_of_the_program_leaves_the_capture_whole() -> None:
    """The record that is meant is in the first function's graph; another one was made outside of the capture."""

    def records(x: Tensor) -> Tensor:
        y = x * 2
        ops.npu_tagged_event_record(event)
        return y

    def waits(x: Tensor) -> Tensor:
        ops.npu_tagged_event_wait(event)
        return x + 1

    first, second = (torch.compile(f, backend="air", mode="reduce-overhead") for f in (records, waits))
    x = torch.ones(8, device="npu")
    for _ in range(3):
        second(first(x))
    ops.npu_tagged_event_record(event)
    npu.synchronize()
    graph = npu.NPUGraph()
    with npu.graph(graph):
        inside = second(first(x))
    x.fill_(5)
    graph.replay()
    assert inside.tolist() == [11.0] * 8


@pytest.mark.filterwarnings("ignore::air_streams.StreamRaceWarning", "ignore::UserWarning")
def test_S19_a_record_inside_a_capture_of_the_program_is_waited_for_inside_it() -> None:
    def waits(x: Tensor) -> Tensor:
        ops.npu_tagged_event_wait(event)
        return x + 1

    compiled = torch.compile(waits, backend="air", mode="reduce-overhead")
    x = torch.ones(8, device="npu")
    for _ in range(3):
        compiled(x)
    side, graph = npu.Stream(), npu.NPUGraph()
    npu.synchronize()
    with npu.graph(graph):
        side.wait_stream(npu.current_stream())
        with npu.stream(side):
            made = x * 2
            ops.npu_tagged_event_record(event)
        inside = compiled(made)  # joins the side stream as well, without which the capture does not end
    x.fill_(5)
    graph.replay()
    assert inside.tolist() == [11.0] * 8


def gives_an_event(x: Tensor) -> tuple[Tensor, Any]:
    y = chain(x)
    ops.npu_tagged_event_record(done)
    return y, None


def gives_a_marker(x: Tensor) -> tuple[Tensor, Any]:
    y = chain(x)
    return y, ops.record()


def chain(x: Tensor) -> Tensor:
    for _ in range(5):
        x = x + 1
    return x


def reads_outside(y: Tensor, marker: Any) -> Tensor:
    if marker is None:
        ops.npu_tagged_event_wait(done)
    else:
        ops.wait([marker])
    return y * 2


@pytest.mark.filterwarnings("ignore::air_streams.StreamRaceWarning", "ignore::UserWarning")
@pytest.mark.parametrize("reader", ["eager", "compiled"])
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("function", [gives_an_event, gives_a_marker])
def test_S19_what_a_graph_records_is_waited_for_outside_of_it(
    function: Callable[[Tensor], tuple[Tensor, Any]], mode: str, reader: str
) -> None:
    compiled = torch.compile(function, backend="air", mode=mode, dynamic=False)
    read = reads_outside
    if reader == "compiled":
        read = torch.compile(reads_outside, backend="air", mode=mode, dynamic=False)
    caller, other, right = npu.Stream(), npu.Stream(), True
    for number in range(CALLS):
        x = torch.full((SIZE,), float(number), device="npu")
        npu.synchronize()
        with delayed(number):
            with npu.stream(caller):
                y, marker = compiled(x)
            with npu.stream(other):
                result = read(y, marker)
            npu.synchronize()
        right &= bool((result.cpu() == (number + 5) * 2).all())
    assert right


@pytest.mark.filterwarnings("ignore::air_streams.StreamRaceWarning", "ignore::UserWarning")
def test_S19_the_last_record_counts_whether_it_is_of_a_graph_or_of_eager_code() -> None:
    compiled = torch.compile(gives_an_event, backend="air", mode="reduce-overhead", dynamic=False)
    caller, other, right = npu.Stream(), npu.Stream(), True
    for number in range(CALLS):
        x = torch.full((SIZE,), float(number), device="npu")
        with npu.stream(caller):
            compiled(x)
        npu.synchronize()
        with delayed(number):
            with npu.stream(caller):
                y, _ = gives_an_event(x)
            with npu.stream(other):
                result = reads_outside(y, None)
            npu.synchronize()
        right &= bool((result.cpu() == (number + 5) * 2).all())
    assert right
