"""Blocks that do not nest within one graph run as eager code does, and a warning names the line."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from air_backend import ops, scope
from air_streams import ScopeIgnored, StreamRaceWarning

THERE = "test_unmatched_scopes.py"


def cut(x: Tensor) -> Tensor:
    with scope.npu_stream_switch("1"):
        y = x * 2
        torch._dynamo.graph_break()
        y = y + 3
    return y * 2


def cut_in_attributes(x: Tensor) -> Tensor:
    with scope.super_kernel("k"), scope.npu_stream_switch("1"):
        y = x * 2
        torch._dynamo.graph_break()
        y = y + 3
    return y * 2


class MadeBefore(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.side = scope.npu_stream_switch("1")

    def forward(self, x: Tensor) -> Tensor:
        with self.side:
            y = x * 2
        return y + 1


def stops_inside(x: Tensor) -> Iterator[Tensor]:
    with scope.npu_stream_switch("1"):
        yield x * 2
        yield x * 3


def left_open(x: Tensor) -> Tensor:
    steps = stops_inside(x)
    return next(steps) + next(steps)


def overlapping(x: Tensor) -> Tensor:
    steps = stops_inside(x)
    with scope.npu_stream_switch("2"):
        y = next(steps)
        z = y * next(steps)
    return y + z


def same_stream_without_a_wait(x: Tensor) -> Tensor:
    """Right by the order of one stream, which the block that is cut shares with the first one."""
    with scope.npu_stream_switch("1"):
        y = x * 2
    with scope.npu_stream_switch("1"):
        y = y * 3
        torch._dynamo.graph_break()
        y = y + 3
    return y


def entered_by_hand(x: Tensor) -> Tensor:
    scope.npu_stream_switch("1").__enter__()
    return x * 2


CUT = [
    cut,
    cut_in_attributes,
    MadeBefore(),
    left_open,
    overlapping,
    same_stream_without_a_wait,
    entered_by_hand,
]


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("function", CUT, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_S19_a_block_that_does_not_nest_in_one_graph_runs_as_eager_does_and_is_told(
    function: Callable[[Tensor], Tensor], mode: str
) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="air", mode=mode)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(3):
            x = torch.full((4,), float(number))
            torch.testing.assert_close(compiled(x), function(x))
    told = [str(each.message) for each in caught if issubclass(each.category, ScopeIgnored)]
    assert told
    assert all(THERE in text for text in told), told
    assert any("enters or leaves one of them alone" in text for text in told)


def test_S19_a_model_that_is_trained_with_a_cut_block_has_the_gradients_of_eager() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(cut, backend="air", mode="reduce-overhead")
    ours, theirs = (torch.ones(4, requires_grad=True) for _ in range(2))
    with pytest.warns(ScopeIgnored):
        compiled(ours).sum().backward()
    cut(theirs).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def marked(x: Tensor) -> Tensor:
    y = x * 2
    marker = ops.record()
    torch._dynamo.graph_break()
    ops.wait([marker])
    return y + 1


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_S21_a_marker_is_waited_for_in_the_graph_after_a_break(mode: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(marked, backend="air", mode=mode)
    for number in range(3):
        x = torch.full((4,), float(number))
        torch.testing.assert_close(compiled(x), x * 2 + 1)


before = ops.npu_create_tagged_event("recorded before a break")


def recorded_before(x: Tensor) -> Tensor:
    y = x * 2
    ops.npu_tagged_event_record(before)
    torch._dynamo.graph_break()
    with scope.npu_stream_switch("1"):
        ops.npu_tagged_event_wait(before)
        z = y + 1
    ops.wait([z])
    return z


def recorded_eagerly(x: Tensor) -> Tensor:
    with scope.npu_stream_switch("1"):
        y = x * 2
        torch._dynamo.graph_break()
        ops.npu_tagged_event_record(before)
    ops.npu_tagged_event_wait(before)
    return y + 1


@pytest.mark.parametrize("function", [recorded_before, recorded_eagerly])
def test_S20_a_wait_for_an_event_that_was_recorded_before_a_break_is_no_finding(
    function: Callable[[Tensor], Tensor],
) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="air", mode="reduce-overhead")
    with warnings.catch_warnings():
        warnings.simplefilter("error", StreamRaceWarning)
        warnings.simplefilter("ignore", ScopeIgnored)
        for number in range(3):
            x = torch.full((4,), float(number))
            torch.testing.assert_close(compiled(x), x * 2 + 1)


def waits_for_nothing(x: Tensor) -> Tensor:
    with scope.npu_stream_switch("1"):
        y = x * 2
        torch._dynamo.graph_break()
    ops.npu_tagged_event_wait(nobodys)
    return y + 1


nobodys = ops.npu_create_tagged_event("that nobody records")


def test_N06_a_finding_in_a_wrapper_that_was_compiled_by_itself_names_the_line_that_called_it() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(waits_for_nothing, backend="air", mode="reduce-overhead")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(torch.ones(4))
    (told,) = [each for each in caught if issubclass(each.category, StreamRaceWarning)]
    assert told.filename == __file__
    assert "ops.npu_tagged_event_wait(nobodys)" in str(told.message)
    assert "record the event before the wait" in str(told.message)


def limited(x: Tensor, seen: list[Any]) -> Tensor:
    with scope.limit_core_num(4, 8):
        y = x * 2
        note(seen)
        y = y + 3
    note(seen)
    return y * 2


@torch.compiler.disable  # type: ignore[untyped-decorator]  # torch annotates it not
def note(seen: list[Any]) -> None:
    npu: Any = torch.npu  # type: ignore[attr-defined]  # torch_npu's
    seen.append(npu.get_stream_limit(npu.current_stream()))


@pytest.mark.npu("only CANN limits the cores of a stream")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_S20_eager_code_between_two_graphs_has_the_core_limit_of_the_block(mode: str) -> None:
    torch._dynamo.reset()
    ours: list[Any] = []
    theirs: list[Any] = []
    compiled = torch.compile(limited, backend="air", mode=mode)
    x = torch.ones(4, device="npu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            torch.testing.assert_close(compiled(x, ours), limited(x, theirs))
    assert ours
    assert ours == theirs
