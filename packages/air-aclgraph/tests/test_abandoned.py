"""Captures whose parameters nobody has give back what they hold; those whose memory somebody has stay."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from aclgraph_backend import executable
from air_aclgraph import Executable
from air_graph import storage_of

SIZE = 4


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def affine(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return (x @ w + b,)


def parameters(device: str) -> list[nn.Parameter]:
    sizes = ((SIZE, SIZE), (SIZE,))
    return [nn.Parameter(torch.randn(size, device=device), requires_grad=False) for size in sizes]


def made(device: str) -> Executable:
    x = torch.randn(2, SIZE, device=device)
    return executable(affine, x, *parameters(device), device=device, static=[1, 2])


def call(run: Executable, given: list[nn.Parameter], device: str) -> None:
    x = torch.randn(2, SIZE, device=device)
    torch.testing.assert_close(run(x, *given)[0], x @ given[0] + given[1])


def test_a_capture_whose_parameters_are_gone_goes_with_a_full_collection(device: str) -> None:
    run, given = made(device), parameters(device)
    for _ in range(3):
        call(run, given, device)
    given.pop()
    gc.collect()
    assert run.keys() == [()], "somebody has the other one"
    given.pop()
    gc.collect(1)
    assert run.keys() == [()], "a young collection looks at nothing"
    gc.collect()
    assert run.keys() == []
    call(run, parameters(device), device)
    assert "key (): dropped, nobody has its parameters" in run.explain()["history"]


def test_so_does_one_whose_parameters_were_given_other_memory(device: str) -> None:
    run, given = made(device), parameters(device)
    call(run, given, device)
    for value in given:
        value.data = torch.empty(0, device=device)
    gc.collect()
    assert run.keys() == []


def test_a_capture_stays_whose_memory_somebody_has(device: str) -> None:
    run, given = made(device), parameters(device)
    call(run, given, device)
    state = [value.detach() for value in given]
    given.clear()
    gc.collect()
    call(run, [nn.Parameter(value, requires_grad=False) for value in state], device)
    assert run.stats()["captures"] == 1


def test_graphs_that_read_the_same_parameters_all_go(device: str) -> None:
    given = parameters(device)
    runs = [made(device), made(device)]
    for run in runs:
        call(run, given, device)
    given.clear()
    gc.collect()
    assert [run.keys() for run in runs] == [[], []]


def test_a_capture_of_no_parameters_stays(device: str) -> None:
    x, *buffers = (torch.randn(size, device=device) for size in ((2, SIZE), (SIZE, SIZE), (SIZE,)))
    run = executable(affine, x, *buffers, device=device, static=[1, 2])
    run(x, *buffers)
    buffers.clear()
    gc.collect()
    assert run.keys() == [()]


def test_parameters_that_are_made_for_each_call_are_copied_soon(device: str) -> None:
    run = made(device)
    for _ in range(12):
        call(run, parameters(device), device)
        gc.collect()
    assert run.stats()["captures"] <= 4


def test_nothing_is_dropped_while_a_call_is_under_way(device: str) -> None:
    run, given = made(device), parameters(device)
    call(run, given, device)
    given.clear()
    with run.runtime.lock:
        gc.collect()
        assert run.keys() == [()]
    gc.collect()
    assert run.keys() == []


def test_a_fork_leaves_the_captures_of_its_parent_alone(accelerator: str) -> None:
    run, given = made(accelerator), parameters(accelerator)
    call(run, given, accelerator)
    given.clear()
    run._pid -= 1  # as in a child, where the device of the parent is not
    gc.collect()
    assert run.keys() == [()]


def test_an_executable_that_is_gone_is_looked_at_no_more(device: str) -> None:
    run = made(device)
    call(run, parameters(device), device)
    gone = weakref.ref(run)
    del run
    gc.collect()
    assert gone() is None


def test_a_released_executable_captures_again(device: str) -> None:
    run, given = made(device), parameters(device)
    call(run, given, device)
    assert run.reads_one_of({storage_of(given[1])})
    run.release()
    assert (run.keys(), run.reads_one_of({storage_of(given[1])})) == ([], False)
    call(run, given, device)
    assert run.stats()["captures"] == 2
