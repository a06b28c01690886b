"""Gradients of gradients through a compiled function are those of eager; where they cannot be had, that is an error."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import functional

from air_backend import CompilerConfig, get_npu_backend
from air_backend.eager_calls import GradientsOfGradients, SecondDerivativeRefused

MODES = ("reduce-overhead", "max-autotune")
Program = Callable[[Any, nn.Module, Tensor], list[Any]]
quiet = pytest.mark.filterwarnings("ignore::air_backend.eager_calls.RunsEagerly")


class Critic(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 8), nn.LayerNorm(8), nn.SiLU(), nn.Dropout(dropout), nn.Linear(8, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


class Several(nn.Module):
    """Results of which one is given twice, one has no gradient, and one is no number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.layer(x).tanh()
        return y, (y * 2).sin(), y, x.detach() * 2, y > 0


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.layer(x).sin() * y  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Results that are views of one value, one that is a view of another result, an argument, and a view of one."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(4, 12)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        q, k, v = self.qkv(x).tanh().chunk(3, -1)
        y = (q @ k.t()).softmax(-1) @ v
        return y, k.t(), v[1:], y[:, :2], x, x.t()


class Inverse(nn.Module):
    """An operator that checks its result, which torch takes for an effect."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return torch.linalg.inv(y.t() @ y + torch.eye(4))  # type: ignore[no-any-return]


class Parts(nn.Module):
    """Several graphs: what one gives the next is nobody's after the call."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        near = (x[:, 0] > 0).nonzero().flatten()
        torch._dynamo.graph_break()
        y = self.first(x[near]).tanh()[:, None]
        torch._dynamo.graph_break()
        return self.last(y.expand(-1, 3, 4).sin() + 1).sum(1)  # type: ignore[no-any-return]


class Statistics(nn.Module):
    """Every call writes buffers that no result depends on."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(x.detach().mean(0))
        return self.norm(self.layer(x)).tanh()  # type: ignore[no-any-return]


class Passing(nn.Module):
    """Gives its argument and a view of it before what it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x, x[1:], self.layer(x).sin()


class Curved(nn.Module):
    """Derivatives with respect to its input, inside what is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        (slope,) = torch.autograd.grad(self.layer(x).tanh().sum(), x, create_graph=True)
        (curve,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
        return slope + curve


def penalty(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    y = run(x)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (y.pow(2).mean() + (slope.norm(2, dim=1) - 1).pow(2).mean()).backward()
    return [y, slope]


def third(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    y = run(x)
    for _ in range(3):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return [y]


def hessians(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    def total(x: Tensor) -> Tensor:
        return run(x).sum()  # type: ignore[no-any-return]

    along = torch.ones_like(x)
    both: list[Any] = [functional.hessian(total, x, vectorize=vectorize) for vectorize in (False, True)]
    return [*both, functional.hvp(total, x, along)[1], functional.jvp(run, x, along)[1]]


def one_graph_after_another(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    y = run(run(x) @ torch.ones(3, 4))
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    slope.pow(2).sum().backward()
    return [y]


def with_hooks(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    hooked = x * 2
    for one in (hooked, *model.parameters()):
        one.register_hook(lambda gradient: gradient * 3)
    slope, *_ = torch.autograd.grad(run(hooked).sum(), [hooked, *model.parameters()], create_graph=True)
    slope.pow(2).sum().backward()
    return [slope]


def one_argument_twice(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    (slope,) = torch.autograd.grad(run(x, x).sum(), x, create_graph=True)
    slope.pow(2).sum().backward()
    return [slope]


def of_several(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    one, two, three, *_ = run(x)
    (slope,) = torch.autograd.grad(one.sum() + two.pow(2).sum() + three.exp().sum(), x, create_graph=True)
    slope.pow(2).sum().backward()
    return [slope]


def of_views(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    results = run(x)
    loss = sum((place * one.sin()).sum() for place, one in enumerate(results, 1))
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    slope.pow(2).sum().backward()
    (part,) = torch.autograd.grad(run(x)[2].pow(2).sum(), x, create_graph=True)
    return [slope, part, *torch.autograd.grad(part.sum(), x)]


def of_results_fed_back(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    *_, first = run(x)
    before, rest, last = run(first)
    loss = (before.sin() * last).sum() + rest.sum()
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    slope.pow(2).sum().backward()
    return [slope]


def of_turned_results(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    """The gradient of a result comes in another layout than the result has."""
    y = run(x)
    (slope,) = torch.autograd.grad((y.t().contiguous().t() * y).sum(), x, create_graph=True)
    slope.pow(2).sum().backward()
    return [slope]


def after_another_call(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    y = run(x)
    fake = run(x.detach() + 1)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (y.pow(2).mean() - fake.mean() + slope.pow(2).sum()).backward()
    return [y, slope, *(one.clone() for one in model.buffers())]


def of_one_matrix(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    (slope,) = torch.autograd.grad(run(x).diagonal().sum(), x, create_graph=True)
    slope.pow(2).mean().backward()
    return [slope]


def asked_under_autocast(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    y = run(x)
    with torch.autocast("cpu", torch.bfloat16):
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    slope.pow(2).sum().backward()
    return [y, slope]


def under_autocast(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    """As torch's documentation has it: gradients are asked for outside."""
    with torch.autocast("cpu", torch.bfloat16):
        y = run(x)
    (slope,) = torch.autograd.grad(y.float().sum(), x, create_graph=True)
    slope.pow(2).sum().backward()
    return [y, slope]


def inside(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
    y = run(x)
    y.pow(2).sum().backward()
    return [y]


PROGRAMS: Final[dict[str, tuple[Callable[[], nn.Module], Program]]] = {
    "penalty": (Critic, penalty),
    "third": (Critic, third),
    "hessians": (Critic, hessians),
    "one graph after another": (Critic, one_graph_after_another),
    "several results": (Several, of_several),
    "hooks": (Critic, with_hooks),
    "one argument twice": (Pair, one_argument_twice),
    "inside": (Curved, inside),
    "views": (Attention, of_views),
    "results fed back": (Passing, of_results_fed_back),
    "turned results": (Critic, of_turned_results),
    "autocast": (Critic, under_autocast),
    "autocast later": (Critic, asked_under_autocast),
    "checked results": (Inverse, of_one_matrix),
    "parts": (Parts, penalty),
    "statistics": (Statistics, after_another_call),
    "statistics under autocast": (Statistics, under_autocast),
}


def compiled(mode: Any, model: Any, *, kept: bool = False) -> Any:
    torch._dynamo.reset()
    config = CompilerConfig()
    config.mode = mode
    config.air.cache.save = kept
    return torch.compile(model, backend=get_npu_backend(compiler_config=config))


def seen(program: Program, run: Any, model: nn.Module, seed: int) -> list[Any]:
    """What a program gives, and the gradients that it leaves; each seed has a size of its own."""
    model.zero_grad()
    x = torch.randn(5 + seed, 4, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    results = program(run, model, x)
    return [*results, x.grad, *(parameter.grad for parameter in model.parameters())]


@quiet
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", MODES)
def test_N25_gradients_of_gradients_are_those_of_eager(mode: str, name: str) -> None:
    make, program = PROGRAMS[name]
    torch.manual_seed(0)
    model = make()
    eager = copy.deepcopy(model)
    run = compiled(mode, model)
    for seed in range(3):
        for found, expected in zip(
            seen(program, run, model, seed), seen(program, eager, eager, seed), strict=True
        ):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("asked", ["torch.func", "autograd"])
@pytest.mark.parametrize("mode", MODES)
def test_a_gradient_that_the_compiled_function_asks_for_is_part_of_its_graph(mode: str, asked: str) -> None:
    model = Critic()

    def by_function(x: Tensor) -> Tensor:
        return torch.func.grad(lambda x: model(x).sum())(x)  # type: ignore[no-any-return]

    def by_autograd(x: Tensor) -> Tensor:
        return torch.autograd.grad(model(x).sum(), x, create_graph=True)[0]

    function = by_function if asked == "torch.func" else by_autograd
    with warnings.catch_warnings(), torch._dynamo.config.patch(trace_autograd_ops=True):
        warnings.simplefilter("error", GradientsOfGradients)
        run = compiled(mode, function)
        slopes = []
        for step in (run, function):
            model.zero_grad()
            slope = step(torch.ones(5, 4).requires_grad_())
            slope.pow(2).sum().backward()
            slopes += [slope.detach(), [one.grad for one in model.parameters()]]
    torch.testing.assert_close(slopes[:2], slopes[2:])


def test_such_calls_are_said_once_with_the_line_where_the_graph_begins() -> None:
    model = Critic()
    run = compiled("reduce-overhead", model)
    with pytest.warns(GradientsOfGradients, match="return self.layers"):
        seen(penalty, run, model, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen(penalty, run, model, 0)


@pytest.mark.parametrize("mode", MODES)
def test_a_forward_that_draws_random_numbers_does_not_run_again(mode: str) -> None:
    model = Critic(dropout=0.5)
    run = compiled(mode, model)
    with pytest.raises(SecondDerivativeRefused, match=r"draws random numbers (.|\n)*return self\.layers"):
        seen(penalty, run, model, 0)
    with pytest.raises(SecondDerivativeRefused):  # where torch would give zeros
        functional.hessian(lambda x: run(x).sum(), torch.ones(5, 4))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * gradient  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", MODES)
def test_nor_does_one_with_a_gradient_of_its_own_which_torch_would_take_for_a_constant(mode: str) -> None:
    def step(x: Tensor) -> Tensor:
        return Square.apply(x.sin()).cos()  # type: ignore[no-any-return,no-untyped-call]

    with pytest.raises(SecondDerivativeRefused, match=r"torch\.autograd\.Function"):
        functional.hessian(lambda x: compiled(mode, step)(x).sum(), torch.ones(4))


@pytest.mark.parametrize("mode", MODES)
def test_nor_does_one_that_reads_what_it_writes(mode: str) -> None:
    model = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
    with pytest.raises(SecondDerivativeRefused, match="reads what it writes"):
        seen(penalty, compiled(mode, model), model, 0)


@pytest.mark.parametrize("mode", MODES)
def test_nor_does_one_that_writes_arguments_of_one_memory(mode: str) -> None:
    def step(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        a.add_(b.sum())
        return x.sin()

    run, memory = compiled(mode, step), torch.ones(4)
    expected = torch.ones(4)
    step(torch.ones(3), expected[:3], expected[1:])
    x = torch.ones(3).requires_grad_()
    (slope,) = torch.autograd.grad(run(x, memory[:3], memory[1:]).sum(), x, create_graph=True)
    torch.testing.assert_close(memory, expected)
    with pytest.raises(SecondDerivativeRefused, match="share memory"):
        slope.sum().backward()


@pytest.mark.parametrize("mode", MODES)
def test_nor_does_one_whose_parameters_were_written_since(mode: str) -> None:
    def stepped(run: Any, model: nn.Module, x: Tensor) -> list[Any]:
        y = run(x)
        with torch.no_grad():
            next(model.parameters()).add_(1)
        return list(torch.autograd.grad(y.sum(), x, create_graph=True))

    model = Critic()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        seen(stepped, compiled(mode, model), model, 0)


@pytest.mark.parametrize("mode", MODES)
def test_results_that_are_arguments_are_left_alone(mode: str) -> None:
    weight = nn.Parameter(torch.ones(3))

    def step(x: Tensor) -> tuple[Tensor, ...]:
        return x, weight, (x * weight).sin()

    run = compiled(mode, step)
    for _ in range(3):
        x = torch.arange(3.0).requires_grad_()
        first, second, result = run(x)
        assert (first is x, second is weight) == (True, True)
        (found,) = torch.autograd.grad(result.sum(), x)
        torch.testing.assert_close(found, torch.autograd.grad(step(x)[2].sum(), x)[0])


@quiet
@pytest.mark.parametrize("mode", MODES)
def test_an_argument_of_inference_mode_is_no_obstacle(mode: str) -> None:
    with torch.inference_mode():
        by = torch.ones(3)

    def step(x: Tensor) -> Tensor:
        return x.sin() + by

    run = compiled(mode, step)
    for _ in range(2):
        x = torch.arange(3.0).requires_grad_()
        found, expected = (torch.autograd.grad(one(x).sum(), x, create_graph=True)[0] for one in (run, step))
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(*(torch.autograd.grad(one.sum(), x)[0] for one in (found, expected)))


@quiet
def test_N25_nor_does_torchs_cache_change_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    for _ in range(2):  # the second finds what the first has kept
        torch.manual_seed(0)
        model = Critic()
        eager = copy.deepcopy(model)
        run = compiled("reduce-overhead", model, kept=True)
        found, expected = seen(penalty, run, model, 0), seen(penalty, eager, eager, 0)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
