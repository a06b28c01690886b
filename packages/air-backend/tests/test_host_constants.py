"""What a graph computes on the host from literals and sizes reaches the device once, and costs no cut."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import _pieces, _records
from air_backend._describe import describe
from air_backend.errors import GraphSplit


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    _pieces._told.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphSplit)
        yield


def positions(x: Tensor) -> Tensor:
    return x + torch.arange(x.shape[1]).to(x.device)


def literals(x: Tensor) -> Tensor:
    return x * torch.tensor(3.5).type_as(x) + torch.tensor([0.5, 0.1, 2.0], dtype=torch.float64).to(x)[0]


def relative_positions(x: Tensor) -> Tensor:
    places = torch.arange(x.shape[1])
    return (places[None, :] - places[:, None]).abs().float().log1p().to(x.device) @ x.t()


def rows_of_the_host(x: Tensor) -> Tensor:
    return x[:, torch.arange(x.shape[1] - 1, -1, -1)]


def shifted_mask(x: Tensor) -> Tensor:
    return x @ torch.zeros(x.shape[1], x.shape[1]).fill_(-1.0).triu_(1).to(x.device)


def a_number_of_a_size(x: Tensor) -> Tensor:
    return x + torch.tensor([x.shape[1]]).to(x.device)


def copied_into(x: Tensor) -> Tensor:
    y = x * 2
    y[0].copy_(torch.arange(x.shape[1]) + 0.5)
    return y


PROGRAMS = (
    positions, literals, relative_positions, rows_of_the_host, shifted_mask, a_number_of_a_size, copied_into,
)  # fmt: skip


def compiled(function: Callable[..., Any], dynamic: bool, **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    options = {"mode": "reduce-overhead", **options}
    return torch.compile(function, backend="air", options=options, dynamic=dynamic, fullgraph=True)


def last() -> tuple[Any, Any]:
    return _records.alive()[-1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_the_numbers_are_eagers_and_each_size_is_captured_once(
    accelerator: str, function: Callable[[Tensor], Tensor], dynamic: bool
) -> None:
    step = compiled(function, dynamic)
    for columns in (3, 5, 3, 4, 5, 3):
        x = torch.randn(2, columns).to(accelerator)
        torch.testing.assert_close(step(x), function(x))
    runs: list[Any] = [run for _, run in _records.alive()[-1 if dynamic else -3 :]]
    captures = [run.stats()["captures"] for run in runs]
    assert sum(captures) == 3


GIVEN_AWAY: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: torch.arange(x.shape[1]).add(1).to(x.device),
    lambda x: torch.arange(x.shape[1]).add(1).to(x.device).squeeze(0),
    lambda x: torch.arange(x.shape[1]).add(1).to(x.device)[:, None].t(),
)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", GIVEN_AWAY)
def test_a_constant_that_is_returned_may_be_written(
    accelerator: str, function: Callable[[Tensor], Tensor], dynamic: bool
) -> None:
    x = torch.ones(2, 3).to(accelerator)
    step = compiled(function, dynamic)
    first = step(x)
    expected = first.clone()
    for _ in range(2):
        result = step(x)
        assert torch.equal(result, expected)
        result.zero_()
    assert torch.equal(first, expected)


def test_what_is_held_is_told_with_its_bytes_and_line(accelerator: str) -> None:
    compiled(relative_positions, False)(torch.randn(2, 3).to(accelerator))
    (held,) = describe(*last())["host constants"]
    assert held["bytes"] == 36
    assert "test_host_constants.py" in held["where"]
    assert "eager" not in describe(*last())


def test_what_sizes_decide_is_told_and_its_part_runs_once_for_each_size(
    accelerator: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[int, ...]] = []
    arange = torch.ops.aten.arange.default
    step = compiled(positions, True)
    x = torch.randn(2, 3).to(accelerator)
    step(x)
    told = describe(*last())["reduce-overhead"]["once for each size"]
    assert str(arange) in [each["operator"] for each in told]
    once = last()[1].once["sizes"]
    run = once._run

    def counted(*sizes: int) -> Any:
        made.append(sizes)
        return run(*sizes)

    monkeypatch.setattr(once, "_run", counted)
    for columns in (3, 5, 5, 3, 5):
        step(torch.randn(2, columns).to(accelerator))
    assert made == [(5,)]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_what_a_caller_gets_is_his_own(accelerator: str, dynamic: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(x.shape[0]).to(x.device)
        return places, places[1:] * x[1:].sum().long()

    step = compiled(function, dynamic)
    for _ in range(4):
        x = torch.randn(4).to(accelerator)
        places, _ = step(x)
        assert places.tolist() == [0, 1, 2, 3]
        places.fill_(-1)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_what_the_program_writes_is_made_anew(accelerator: str, dynamic: bool) -> None:
    def function(x: Tensor) -> Tensor:
        total = torch.zeros(x.shape[0]).to(x.device)
        total += x
        total *= 2
        return total

    step = compiled(function, dynamic)
    for rows in (4, 4, 4, 6, 4):
        x = torch.randn(rows).to(accelerator)
        torch.testing.assert_close(step(x), 2 * x)


def test_beyond_its_limit_a_constant_cuts_the_graph_and_the_warning_says_so(accelerator: str) -> None:
    step = compiled(positions, False, **{"air.host_constant_bytes": 8})
    with pytest.warns(GraphSplit, match=r"test_host_constants\.py"):
        step(torch.randn(2, 3).to(accelerator))


def test_by_size_no_more_than_the_limit_is_kept_and_the_numbers_stay_right(accelerator: str) -> None:
    step = compiled(positions, True, **{"air.host_constant_bytes": 100})
    for columns in (3, 9, 4, 3, 9, 4):
        x = torch.randn(2, columns).to(accelerator)
        torch.testing.assert_close(step(x), positions(x))
    assert last()[1].once["sizes"].nbytes <= 100


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_where_a_cut_is_an_error_a_constant_is_none(accelerator: str, dynamic: bool) -> None:
    step = compiled(shifted_mask, dynamic, **{"air.uncapturable": "error"})
    for _ in range(3):
        x = torch.randn(2, 3).to(accelerator)
        torch.testing.assert_close(step(x), shifted_mask(x))


def test_random_numbers_of_the_host_are_drawn_in_every_call(accelerator: str) -> None:
    def function(x: Tensor) -> Tensor:
        return x + torch.rand(3).to(x.device)

    step = compiled(function, False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphSplit)
        one, other = (step(torch.zeros(3).to(accelerator)) for _ in range(2))
    assert not torch.equal(one, other)


def test_a_training_step_with_host_constants_gives_eagers_gradients(accelerator: str) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return ((x @ w) * torch.arange(w.shape[1]).to(x.device)).tanh().sum()

    step = compiled(function, False)
    x, w = torch.randn(2, 4).to(accelerator), torch.randn(4, 3).to(accelerator).requires_grad_()
    for _ in range(3):
        (expected,) = torch.autograd.grad(function(x, w), w)
        (found,) = torch.autograd.grad(step(x, w), w)
        torch.testing.assert_close(found, expected)


def test_places_of_the_host_that_the_backward_graph_wants_are_handed_on(accelerator: str) -> None:
    def function(x: Tensor) -> Tensor:
        return x[torch.arange(x.shape[0] - 1, -1, -1)].cumsum(0)

    step = compiled(function, False)
    warnings.simplefilter("ignore", GraphSplit)  # the backward graph reads them in the memory of the host
    for _ in range(3):
        x = torch.randn(4, 3).to(accelerator).requires_grad_()
        (expected,) = torch.autograd.grad(function(x)[1].sum(), x)
        (found,) = torch.autograd.grad(step(x)[1].sum(), x)
        torch.testing.assert_close(found, expected)
