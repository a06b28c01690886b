"""torch's `activation_memory_budget`: less is saved for the backward, and the gradients stay those of eager."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch._functorch import config
from torch.utils.checkpoint import checkpoint

from air_backend import _budget
from air_backend.errors import BudgetIgnored

MODES = ("reduce-overhead", "max-autotune")
SIZE: Final = 16


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_budget, "_told", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error", BudgetIgnored)
        yield


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = nn.functional.gelu(self.linear(x))
        return y.tanh().sigmoid() + x


class Counting(nn.Module):
    """Reads a buffer, writes it, and reads it again."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(SIZE, SIZE)
        self.register_buffer("seen", torch.ones(SIZE))

    def forward(self, x: Tensor) -> Tensor:
        before = (self.linear(x) * self.seen.clone()).sin()
        self.seen.add_(x.detach().mean(0))
        return before * (self.seen * 2).cos()  # type: ignore[no-any-return]


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand_like(x).exp() + torch.bernoulli(torch.full_like(x, 0.5)) * x.sin()


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(Layer(), nn.Dropout(0.3), Layer())

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.inner, x, use_reentrant=False)  # type: ignore[no-any-return]


MODELS: Final[dict[str, Callable[[], nn.Module]]] = {
    "layers": lambda: nn.Sequential(Layer(), Layer(), Layer()),
    "norms": lambda: nn.Sequential(Layer(), nn.BatchNorm1d(SIZE), nn.LayerNorm(SIZE), nn.SiLU()),
    "dropout": lambda: nn.Sequential(Layer(), nn.Dropout(0.5), Layer(), nn.Dropout(0.3)),
    "dropout alone": lambda: nn.Dropout(0.5),
    "noise": lambda: nn.Sequential(Layer(), Noise(), Layer()),
    "a written buffer": lambda: nn.Sequential(Layer(), Counting(), Layer()),
    "a checkpoint": lambda: nn.Sequential(Layer(), Checkpointed(), nn.Dropout(0.5), Layer()),
}


def compiled(function: Any, mode: str, **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend="air", options={"mode": mode, **options})


def steps(model: nn.Module, call: Callable[[Tensor], Tensor]) -> list[Any]:
    found: list[Any] = []
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(8, SIZE).requires_grad_()
        model.zero_grad()
        y = call(x).exp()
        y.mean().backward()
        found += [y.detach().clone(), x.grad, *(each.grad for each in model.parameters())]
        found += [each.clone() for each in model.buffers()]
    return found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("budget", [0.5, 0.0])
def test_gradients_are_the_same_with_and_without_a_budget(budget: float, mode: str, name: str) -> None:
    """Which are eager's; max-autotune draws random numbers of its own."""
    model = MODELS[name]()
    one, other = copy.deepcopy(model), copy.deepcopy(model)
    expected = steps(one, one if mode == "reduce-overhead" else compiled(one, mode))
    with config.patch(activation_memory_budget=budget):
        found = steps(other, compiled(other, mode))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_an_argument_that_is_written_after_the_graph_is_not_read_again() -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        y = (x.clone() * w).sin()
        x.mul_(2)
        return (y * (x + 1).cos()).sum()

    given = [torch.linspace(at, at + 1, 8).requires_grad_() for at in range(2)]
    with config.patch(activation_memory_budget=0.0):
        found, expected = (
            torch.autograd.grad(run(given[0] * 1, given[1]), given)
            for run in (compiled(step, "reduce-overhead"), step)
        )
    torch.testing.assert_close(found, expected)


def saved_by(run: Callable[[Tensor], Tensor]) -> int:
    """The bytes that a forward saves."""
    bytes_of: dict[int, int] = {}

    def pack(value: Tensor) -> Tensor:
        bytes_of[value.data_ptr()] = value.nbytes
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        run(torch.ones(256, SIZE))
    return sum(bytes_of.values())


@pytest.mark.parametrize("mode", MODES)
def test_a_smaller_budget_saves_less(mode: str) -> None:
    model = MODELS["layers"]()
    sizes = []
    for budget in (1.0, 0.5, 0.0):
        with config.patch(activation_memory_budget=budget):
            sizes.append(saved_by(compiled(model, mode)))
    assert sizes[0] > 2 * sizes[1] > 4 * sizes[2], sizes


def test_a_budget_for_a_region_is_one_for_its_graph() -> None:
    region = getattr(torch.autograd.graph, "region_activation_memory_budget", None)
    if region is None:
        pytest.skip("torch has no budgets for regions")
    model = MODELS["layers"]()

    def step(x: Tensor) -> Tensor:
        with region(0.0):
            return model(x)  # type: ignore[no-any-return]

    assert saved_by(compiled(step, "reduce-overhead")) < saved_by(compiled(model, "reduce-overhead")) / 4


def test_a_joint_graph_has_no_budget_which_is_said_once() -> None:
    w = torch.linspace(1, 2, 4).requires_grad_()

    def loss(x: Tensor) -> Tensor:
        return (x * w).tanh().square().sum()

    joint = {"experimental_config.aot_config_enable_joint_graph": True}
    with config.patch(activation_memory_budget=0.0):
        with pytest.warns(BudgetIgnored, match="forward and backward are one graph"):
            (found,) = torch.autograd.grad(compiled(loss, "max-autotune", **joint)(torch.ones(4)), w)
        compiled(loss, "max-autotune", **joint)(torch.ones(4))  # a second warning were an error
    torch.testing.assert_close(found, torch.autograd.grad(loss(torch.ones(4)), w)[0])
