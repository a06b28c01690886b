"""What a call of a captured key does, counted: nothing that grows with the graph, nothing that only a log needs."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import air_aclgraph
from aclgraph_backend import executable
from air_aclgraph import Executable, HostRuntime, Recording, Request, _addresses

SOURCES = ("<air call>", "_replayer.py", "_executable.py", "_key.py", "_memory.py")


class Still(HostRuntime):
    """A host runtime whose replays do nothing: what remains of a call is the executor's own work."""

    def record(self, body: Callable[..., Any], inputs: Sequence[object], request: Request) -> Recording:
        return replace(super().record(body, inputs, request), replay=_nothing)


def _nothing() -> None:
    return None


class Calls:
    """The Python functions and the C functions that one call enters."""

    def __init__(self, call: Callable[..., Any], *args: Any) -> None:
        self.python: list[tuple[str, str]] = []
        self.c: list[str] = []
        sys.setprofile(self._seen)
        try:
            call(*args)
        finally:
            sys.setprofile(None)
        self.c.remove("setprofile")

    def _seen(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self.python.append((frame.f_code.co_filename, frame.f_code.co_name))
        elif event == "c_call":
            self.c.append(argument.__name__)


def summed(x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    for weight in weights:
        x = x + weight
    return (x,)


def many(count: int, **options: Any) -> tuple[Executable, list[Tensor]]:
    args = [torch.randn(3) for _ in range(count + 1)]
    run = executable(summed, *args, static=range(1, count + 1), runtime=Still(), **options)
    for _ in range(8):  # nobody keeps the outputs: from the sixth call on they are lent
        run.boxed(list(args))
    return run, args


@pytest.mark.skipif(
    _addresses.compiled() is None, reason="needs a C++ compiler, as the fast address test does"
)
def test_H04_H06_three_hundred_parameters_cost_as_many_calls_as_thirty() -> None:
    few, many_of_them = (Calls(run.boxed, args) for run, args in (many(30), many(300)))
    assert few.python == many_of_them.python
    assert few.c == many_of_them.c
    assert few.c.count("data_ptr") == 1, "of the one output, which was lent"


def test_H01_H02_H05_a_hit_enters_the_call_path_and_nothing_else() -> None:
    run, args = many(30)
    calls = Calls(run.boxed, args)
    assert all(file.endswith(SOURCES) or name in ("_nothing", "same") for file, name in calls.python)
    assert len(calls.python) <= 5
    assert not {"time", "perf_counter", "format", "join", "hash", "isEnabledFor"} & set(calls.c)


def test_H03_the_key_is_a_tuple_of_numbers() -> None:
    run = executable(lambda x: (x * 2,), torch.ones(3, 2), dynamic=True)
    for rows in (3, 4):
        run(torch.ones(rows, 2))
    assert run.keys() == [(3, 2), (4, 2)]


def test_H08_ten_inputs_are_copied_by_one_call() -> None:
    args = [torch.randn(3) for _ in range(10)]
    run = executable(summed, *args, runtime=Still())
    for _ in range(3):
        run.boxed(list(args))
    calls = Calls(run.boxed, args)
    assert [name for name in calls.c if "copy" in name] == ["_foreach_copy_"]


def test_H10_nothing_on_the_way_of_a_call_is_a_module() -> None:
    run, _ = many(1)
    replay = run.recording_of(()).replay
    assert not any(isinstance(thing, nn.Module) for thing in (run, run.boxed_callable(), replay))


def test_H12_views_of_a_replay_are_the_tuple_that_was_made_at_capture() -> None:
    run, args = many(2, air__outputs="view")
    assert run.boxed(list(args)) is run.boxed(list(args))


def test_outputs_that_nobody_keeps_are_never_copied() -> None:
    run, args = many(30)
    calls = Calls(run.boxed, args)
    assert not {"clone", "empty", "empty_strided"} & set(calls.c)
    addresses = []
    for _ in range(3):
        addresses.append(run.boxed(list(args))[0].data_ptr())
    assert len(set(addresses)) == 1


def test_the_copies_of_a_call_are_watched_for_a_few_calls_only() -> None:
    run, args = many(3)
    kept = [run.boxed(list(args)) for _ in range(20)]
    calls = Calls(run.boxed, args)
    assert not {"_weak_ref", "_expired"} & set(calls.c)
    assert len({one[0].data_ptr() for one in kept}) == len(kept)


def test_H13_a_hit_costs_the_same_however_many_keys_there_are() -> None:
    def hit(keys: int) -> Calls:
        run = executable(lambda x: (x * 2, x[1:], x + 1), torch.ones(3, 2), dynamic=True, runtime=Still())
        for rows in range(3, 3 + keys):
            for _ in range(8):
                run(torch.ones(rows, 2))
        return Calls(run.boxed, [torch.ones(3, 2)])

    alone, among_others = hit(1), hit(9)
    assert alone.python == among_others.python
    assert alone.c == among_others.c


def test_H14_calls_warn_nobody_and_leave_the_filters_of_warnings_alone() -> None:
    run = executable(lambda x: (x * 2,), torch.ones(3, 2), dynamic=True)
    before = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (3, 4, 3, 4):
            run(torch.ones(rows, 2))
    assert warnings.filters == before


def test_an_executable_ends_with_its_last_reference_and_not_with_the_garbage_collector() -> None:
    run, args = many(2)
    run.boxed(list(args))
    gone = weakref.ref(run)
    collecting = gc.isenabled()
    gc.disable()
    try:
        del run
        assert gone() is None
    finally:
        if collecting:
            gc.enable()


def test_H07_a_hit_asks_the_driver_for_no_limit_and_no_device_memory(
    accelerator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = torch.get_device_module(accelerator)
    x = torch.ones(4, device=accelerator)
    run = air_aclgraph.compile_graph(
        torch.fx.symbolic_trace(lambda x: (torch.ops.aten.mul.Tensor(x, 2),)), [x]
    )
    for _ in range(3):
        run(x)

    def asked(*args: object) -> None:
        raise AssertionError("the driver was asked")

    for name in ("get_stream_limit", "get_device_limit", "mem_get_info", "memory_reserved", "synchronize"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, asked)
    for _ in range(3):
        run(x)
    monkeypatch.undo()
    assert run(x)[0].tolist() == [2.0] * 4
    assert run.stats()["captures"] == 1
