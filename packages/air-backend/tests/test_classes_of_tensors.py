"""Parameters and gradients that are tensors of another class or layout: what eager takes, a compiled model takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor, FakeTensorMode

MODES = ["reduce-overhead", "max-autotune"]


class Named(nn.Parameter):
    """A parameter of a class of the user's."""


class Loaded(nn.Parameter):
    """Serving frameworks keep how a weight is loaded beside it, and look at what is done with it."""

    def __new__(cls, data: Tensor, loader: Callable[..., Any] | None = None) -> Loaded:
        made: Loaded = super().__new__(cls, data=data, requires_grad=False)
        return made

    def __init__(self, data: Tensor, loader: Callable[..., Any] | None = None) -> None:
        self.loader = loader

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        handled: Any = super().__torch_function__
        return handled(func, types, args, kwargs or {})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [Named, Loaded])
@pytest.mark.parametrize("count", [1, 8])
def test_parameters_of_another_class_are_parameters(
    count: int, kind: type[nn.Parameter], mode: str, device: str
) -> None:
    torch._dynamo.reset()
    values = [torch.arange(3.0) + number for number in range(count)]
    weights = nn.ParameterList(kind(value.to(device)) for value in values)

    def product(x: Tensor) -> Tensor:
        for weight in weights:
            x = torch.sin(x * weight)
        return x

    run = torch.compile(product, backend="air", options={"mode": mode})
    for number in range(4):
        x = (torch.arange(3.0) - number).to(device)
        found = run(x)
        assert type(found) is Tensor
        torch.testing.assert_close(found, product(x))
        with torch.no_grad():
            weights[0].mul_(2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_sparse_gradients_of_an_embedding_are_those_of_eager(mode: str, device: str) -> None:
    torch._dynamo.reset()
    table = nn.Embedding(10, 4, sparse=True).to(device)
    run = torch.compile(lambda rows: table(rows) * 2, backend="air", options={"mode": mode})
    for rows in ([1, 3], [3, 3], [0, 9]):
        picked = torch.tensor(rows, device=device)
        (found,) = torch.autograd.grad(run(picked).sum(), [table.weight])
        (expected,) = torch.autograd.grad((table(picked) * 2).sum(), [table.weight])
        torch.testing.assert_close(found.to_dense(), expected.to_dense())


@pytest.mark.parametrize("mode", MODES)
def test_gradients_that_are_known_to_be_zero_need_no_memory(mode: str, device: str) -> None:
    """Autograd gives such a gradient no memory, in a graph and between two of them."""
    torch._dynamo.reset()
    options: dict[str, Any] = {"mode": mode}

    def waves(x: Tensor) -> Tensor:
        return (x * 2).sin()

    sign_of = torch.compile(torch.sgn, backend="air", options=options)
    waves_of = torch.compile(waves, backend="air", options=options)
    pairs: list[tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = [
        (sign_of, torch.sgn),
        (lambda x: torch.sgn(waves_of(x)), lambda x: torch.sgn(waves(x))),
        (lambda x: waves_of(sign_of(x) + x), lambda x: waves(torch.sgn(x) + x)),
    ]
    for function, eager in pairs:
        for number in range(3):
            x = (torch.arange(6.0).reshape(2, 3) - number).to(device).requires_grad_()
            (found,) = torch.autograd.grad(function(x).sum(), [x])
            (expected,) = torch.autograd.grad(eager(x).sum(), [x])
            torch.testing.assert_close(found, expected)


class Measured(Tensor):
    """A tensor with a unit; what is computed from it is one as well."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handled: Any = super().__torch_function__
        return handled(func, types, args, kwargs or {})


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_arguments_of_another_class_are_computed_with_as_in_eager(mode: str, trains: bool) -> None:
    layer = nn.Linear(3, 3)

    def step(x: Tensor) -> Tensor:
        return torch.sin(layer(x)) * 2

    run = torch.compile(step, backend="air", options={"mode": mode})
    for seed in range(3):
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed))
        given = x.as_subclass(Measured)
        with torch.set_grad_enabled(trains):
            found, expected = run(given), step(given)
        assert type(found) is Measured
        torch.testing.assert_close(found.as_subclass(Tensor), expected.as_subclass(Tensor))
        if trains:
            gradients = [torch.autograd.grad(one.sum(), layer.weight)[0] for one in (found, expected)]
            torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("mode", MODES)
def test_fake_tensors_are_computed_with_as_fake_ones(mode: str) -> None:
    run = torch.compile(lambda x: (x @ x).relu(), backend="air", options={"mode": mode})
    with torch.no_grad():
        for _ in range(2):
            with FakeTensorMode() as fake:
                made = run(fake.from_tensor(torch.eye(4)))
            assert isinstance(made, FakeTensor)
            assert made.shape == (4, 4)
            assert torch.equal(run(torch.eye(4)), torch.eye(4))


@pytest.mark.parametrize("begins", ["fake", "real"])
@pytest.mark.parametrize("mode", MODES)
def test_a_graph_with_numbers_and_writes_takes_fake_tensors_before_and_after_real_ones(
    mode: str, begins: str, device: str
) -> None:
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        x.add_(1)
        return torch.sin(x) * 2 + 1, x.t()

    run = torch.compile(step, backend="air", options={"mode": mode})
    kinds = ["fake", "real"] if begins == "fake" else ["real", "fake", "real"]
    for kind in kinds:
        if kind == "real":
            x, y = torch.ones(2, 3, device=device), torch.ones(2, 3, device=device)
            torch.testing.assert_close(run(x), step(y))
            assert torch.equal(x, y)
            continue
        with FakeTensorMode():
            made = run(torch.empty(2, 3, device=device))
        assert [(type(one), one.shape) for one in made] == [(FakeTensor, (2, 3)), (FakeTensor, (3, 2))]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_computed_with_one_fake_tensor_is_fake(mode: str) -> None:
    run = torch.compile(lambda x, y: x * 2 + y, backend="air", options={"mode": mode})
    with torch.no_grad():
        for fake in (1, 0, 1):
            given = [torch.ones(4), torch.ones(4)]
            given[fake] = FakeTensorMode(allow_non_fake_inputs=True).from_tensor(given[fake])
            assert isinstance(run(*given), FakeTensor)


@pytest.mark.parametrize("mode", MODES)
def test_a_tensor_of_inference_mode_is_written_inside_that_alone(mode: str, device: str) -> None:
    def written(cache: Tensor, x: Tensor) -> Tensor:
        cache.add_(x)
        return cache * 2

    run = torch.compile(written, backend="air", options={"mode": mode})
    with torch.inference_mode():
        cache = torch.zeros(2, device=device)
    for _ in range(3):
        with torch.no_grad(), pytest.raises(RuntimeError, match="inference"):
            run(cache, torch.ones(2, device=device))
    with torch.inference_mode():
        assert run(cache, torch.ones(2, device=device)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("mode", MODES)
def test_conjugates_are_taken_apart_as_in_eager(mode: str, device: str) -> None:
    run = torch.compile(lambda x: (x.real + 1, x.imag * 2), backend="air", options={"mode": mode})
    with torch.no_grad():
        for number in range(3):
            x = torch.complex(torch.arange(3.0) + number, torch.ones(3)).to(device)
            for given in (x, x.conj()):
                made = run(given)
                torch.testing.assert_close(made, (given.real + 1, given.imag * 2))
