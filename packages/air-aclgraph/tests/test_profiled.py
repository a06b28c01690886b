"""What torch's profiler shows of a captured graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import air_aclgraph
from aclgraph_backend import executable


def named(call: Callable[[], Any]) -> tuple[Any, Counter[str]]:
    """What a call returns, and the names of AIR that a profiler saw in it."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        result = call()
    return result, Counter(event.name for event in seen.events() or () if event.name.startswith("air: "))


def doubled(x: Tensor) -> tuple[Tensor, ...]:
    return (x * 2,)


def test_a_first_call_shows_its_run_and_its_capture_and_a_later_one_its_copy_and_its_replay() -> None:
    x = torch.randn(8, 128)
    run = executable(doubled, x, dynamic=True, air__warmup=1)
    (first,), names = named(lambda: run(x))
    assert torch.equal(first, x * 2)
    assert names["air: capture doubled key (8, 128)"] == 1
    y = torch.randn(8, 128)
    (later,), names = named(lambda: run(y))
    assert torch.equal(later, y * 2)
    assert names == {"air: copy doubled key (8, 128)": 1, "air: replay doubled key (8, 128)": 1}


def test_the_operators_of_a_replay_lie_inside_its_name() -> None:
    run = executable(doubled, torch.randn(4))
    run(torch.randn(4))
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        run(torch.randn(4))
    (multiplied,) = (event for event in seen.events() or () if event.name == "aten::mul")
    assert multiplied.cpu_parent.name == "air: replay doubled"


def test_what_is_copied_back_and_what_is_not_copied_at_all_is_told() -> None:
    def written(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return (x.add_(w),)

    x, w = torch.ones(4), torch.ones(4)
    run = executable(written, x, w, static=[0, 1])
    run(x, w)
    (result,), names = named(lambda: run(x, w))
    assert result.tolist() == x.tolist() == [3.0] * 4
    assert set(names) == {"air: replay written"}


def test_without_a_profiler_no_name_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    run = executable(doubled, torch.randn(4))
    run(torch.randn(4))
    named(lambda: run(torch.randn(4)))  # the function with names is there from now on

    def made(*_: object) -> None:
        raise AssertionError("a name was made")

    monkeypatch.setattr(torch._C._profiler, "_RecordFunctionFast", made)
    x = torch.randn(4)
    assert torch.equal(run(x)[0], x * 2)


def test_a_pinned_call_is_shown() -> None:
    x = torch.randn(4)
    step = executable(doubled, x).pin(x)
    (result,), names = named(lambda: step(x))
    assert torch.equal(result, x * 2)
    assert names == {"air: copy doubled": 1, "air: replay doubled": 1}


def test_calls_on_a_device_are_shown(accelerator: str) -> None:
    x = torch.randn(4, device=accelerator)
    gm = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.mul.Tensor(x, 2),))
    run = air_aclgraph.compile_graph(gm, [x], name="step")
    _, names = named(lambda: run(x))
    assert names["air: capture step"] == 1
    (result,), names = named(lambda: run(x))
    assert torch.equal(result.cpu(), x.cpu() * 2)
    assert names["air: replay step"] == 1
