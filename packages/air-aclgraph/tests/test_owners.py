"""Captures whose parameters are gone give back what they hold; those whose memory somebody has stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from aclgraph_backend import executable
from air_aclgraph import Executable

SIZE = 4


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def affine(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return (x @ w + b,)


def parameter(device: str, *sizes: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(sizes, device=device), requires_grad=False)


def parameters(device: str) -> list[nn.Parameter]:
    return [parameter(device, SIZE, SIZE), parameter(device, SIZE)]


def made(device: str) -> Executable:
    x = torch.randn(2, SIZE, device=device)
    return executable(affine, x, *parameters(device), device=device, static=[1, 2])


def call(run: Executable, given: list[nn.Parameter], device: str) -> None:
    x = torch.randn(2, SIZE, device=device)
    torch.testing.assert_close(run(x, *given)[0], x @ given[0] + given[1])


def test_a_capture_goes_with_the_last_of_its_parameters(device: str) -> None:
    run, given = made(device), parameters(device)
    for _ in range(3):
        call(run, given, device)
    given.pop()
    assert run.keys() == [()]
    given.pop()
    assert run.keys() == []
    call(run, parameters(device), device)
    assert "key (): dropped, its parameters are gone" in run.explain()["history"]


def test_it_goes_with_parameters_that_the_garbage_collector_finds(device: str) -> None:
    run, module = made(device), nn.Module()
    module.register_parameter("w", parameter(device, SIZE, SIZE))
    module.register_parameter("b", parameter(device, SIZE))
    call(run, [*module.parameters()], device)
    module.__dict__["itself"] = module
    del module
    gc.collect()
    assert run.keys() == []


def test_a_parameter_that_was_given_other_memory_is_gone_as_well(device: str) -> None:
    run, given = made(device), parameters(device)
    call(run, given, device)
    given[0].data = torch.empty(0, device=device)
    assert run.keys() == [()], "its owner may bring it back"
    given.pop()
    assert run.keys() == []


def test_a_capture_stays_whose_memory_somebody_has(device: str) -> None:
    run, given = made(device), parameters(device)
    call(run, given, device)
    state = [value.detach() for value in given]
    given.clear()
    assert run.keys() == [()]
    call(run, [nn.Parameter(value, requires_grad=False) for value in state], device)
    assert run.stats()["captures"] == 1


def test_graphs_that_read_the_same_parameters_all_go(device: str) -> None:
    given = parameters(device)
    runs = [made(device), made(device)]
    for run in runs:
        call(run, given, device)
    given.clear()
    assert [run.keys() for run in runs] == [[], []]


def test_parameters_that_are_made_for_each_call_are_copied_soon(device: str) -> None:
    run = made(device)
    for _ in range(12):
        call(run, parameters(device), device)
    assert run.stats()["captures"] <= 4


def test_a_capture_that_is_in_use_goes_with_the_next_call_that_looks(device: str) -> None:
    run, given = made(device), parameters(device)
    call(run, given, device)
    with run.runtime.lock:
        given.clear()
        assert run.keys() == [()]
    other = parameters(device)
    call(run, other, device)
    assert run.stats()["captures"] == 2
    assert run.stats()["recaptures"] == {}


def test_a_released_executable_captures_again(device: str) -> None:
    run, given = made(device), parameters(device)
    call(run, given, device)
    assert run.reads_one_of({id(given[1])})
    run.release()
    assert (run.keys(), run.reads_one_of({id(given[1])})) == ([], False)
    call(run, given, device)
    assert run.stats()["captures"] == 2
