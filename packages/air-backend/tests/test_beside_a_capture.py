"""Calls and waits beside a capture of the program on a stream that graphs use too: torch has few, given out in turn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir.errors import EngineError
from air_graph import is_captured
from air_streams import ops, stream_for
from delayed_device import MARKS, SIZE, delayed, npu

pytestmark = [
    *MARKS,
    pytest.mark.filterwarnings("ignore::air_streams.StreamRaceWarning", "ignore::UserWarning"),
]


def chain(x: Tensor) -> Tensor:
    for _ in range(5):
        x = x + 1
    return x


def gives_a_marker(x: Tensor) -> tuple[Tensor, Any]:
    return chain(x), ops.record()


def waits(x: Tensor) -> Tensor:
    ops.wait([x])
    return x * 2


def waits_for_the_marker(x: Tensor, marker: Tensor) -> Tensor:
    ops.wait([marker])
    return x * 2


def compiled(function: Any, mode: str = "reduce-overhead") -> Any:
    return torch.compile(function, backend="air", options={"mode": mode}, dynamic=False)


def is_right(graph: Any, x: Tensor, result: Tensor, number: int) -> bool:
    """Whether a replay on a slow device gives `(x + 5) * 2` for an `x` of this number."""
    x.fill_(float(number))
    npu.synchronize()
    with delayed(number):
        graph.replay()
        npu.synchronize()
    return bool((result.cpu() == (number + 5) * 2).all())


def two_streams() -> tuple[Any, Any]:
    """A stream behind a tag, for which every wait for a tensor waits, and another one."""
    tagged: Any = stream_for("captured by the program", "npu")
    return tagged, next(one for one in iter(npu.Stream, None) if one != tagged)


def test_A42_a_stream_is_captured_from_where_it_is_drawn_into_a_capture_to_the_end_of_it() -> None:
    stream, other, graph = npu.Stream(), npu.Stream(), npu.NPUGraph()
    told = [is_captured(stream)]
    with npu.graph(graph, stream=stream):
        told += [is_captured(stream), is_captured(other)]
        other.wait_stream(stream)
        told.append(is_captured(other))
        stream.wait_stream(other)
    assert [*told, is_captured(stream), is_captured(other)] == [False, True, False, True, False, False]


@pytest.mark.parametrize("wait", [waits, compiled(waits)], ids=["eager", "compiled"])
def test_S19_a_wait_beside_a_capture_of_the_program_does_not_become_part_of_it(wait: Any) -> None:
    function = compiled(gives_a_marker)
    x, written = torch.ones(SIZE, device="npu"), torch.zeros(SIZE, device="npu")
    for _ in range(3):
        function(x)
        wait(x)
    (capturing, other), graph = two_streams(), npu.NPUGraph()
    npu.synchronize()
    with npu.graph(graph, stream=capturing, capture_error_mode="relaxed"):
        inside, _ = function(x)
        with npu.stream(other):
            written.copy_(wait(x))
    npu.synchronize()
    assert bool((written.cpu() == 2).all())
    graph.replay()
    assert bool((inside.cpu() == 6).all())


@pytest.mark.parametrize("wait", [waits, compiled(waits)], ids=["eager", "compiled"])
def test_S19_a_wait_inside_a_capture_of_the_program_is_for_what_the_capture_holds(wait: Any) -> None:
    x = torch.zeros(SIZE, device="npu")
    for _ in range(3):
        wait(x)
    (side, capturing), graph = two_streams(), npu.NPUGraph()
    npu.synchronize()
    with npu.graph(graph, stream=capturing):
        side.wait_stream(capturing)
        with npu.stream(side):
            made = chain(x)
        result = wait(made)
        capturing.wait_stream(side)
    for number in range(4):
        assert is_right(graph, x, result, number)


@pytest.mark.parametrize("make", [gives_a_marker, compiled(gives_a_marker)], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "wait", [waits_for_the_marker, compiled(waits_for_the_marker)], ids=["eager", "compiled"]
)
def test_S19_a_marker_of_a_capture_is_waited_for_inside_it_and_by_nobody_after_it(
    make: Any, wait: Any
) -> None:
    x = torch.zeros(SIZE, device="npu")
    for _ in range(3):
        wait(*make(x))
    captured = []
    for _ in range(2):
        graph, side, capturing = npu.NPUGraph(), npu.Stream(), npu.Stream()
        npu.synchronize()
        with npu.graph(graph, stream=capturing):
            side.wait_stream(capturing)
            with npu.stream(side):
                made, marker = make(x)
            result = wait(made, marker)
            capturing.wait_stream(side)
        captured.append((graph, result, made, marker))
    assert bool((wait(*make(x)).cpu() == 10).all())
    for number, (graph, result, *_) in enumerate(captured):
        assert is_right(graph, x, result, number)


def called_beside_a_capture(mode: str) -> None:
    """Calls a graph on one stream, then on another one while the first is captured."""
    function, x, given = compiled(chain, mode), torch.ones(SIZE, device="npu"), torch.ones(SIZE, device="npu")
    first, other, graph = npu.Stream(), npu.Stream(), npu.NPUGraph()
    with npu.stream(first):
        for _ in range(3):
            function(x)
    npu.synchronize()
    with npu.graph(graph, stream=first, capture_error_mode="relaxed"):
        doubled = given * 2
        with npu.stream(other):
            beside = function(x)
        inside = function(doubled)
    npu.synchronize()
    assert bool((beside.cpu() == 6).all())
    given.fill_(3)
    graph.replay()
    assert bool((inside.cpu() == 11).all())


def test_A42_a_call_beside_a_capture_on_the_stream_of_the_last_call_does_not_become_part_of_it() -> None:
    called_beside_a_capture("reduce-overhead")


def test_G33_a_call_beside_a_capture_on_the_stream_of_the_first_call_says_that_the_engine_has_that_one_only() -> (
    None
):
    with pytest.raises(EngineError, match="outside a capture that the program makes"):
        called_beside_a_capture("max-autotune")
    npu.synchronize()
    assert bool((compiled(chain)(torch.ones(SIZE, device="npu")).cpu() == 6).all())
