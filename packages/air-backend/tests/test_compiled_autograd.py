"""Compiled autograd: the whole backward of an eager or compiled forward is one graph that AIR is given."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from air_backend import CompilerConfig, get_npu_backend
from small_models import Scaled

Step = Callable[[nn.Sequential, Tensor], Tensor]


def hooked(model: nn.Sequential, x: Tensor) -> Tensor:
    y = model(x)
    y.register_hook(lambda grad: grad * 3)
    total: Tensor = y.sum()
    return total


def in_place(model: nn.Sequential, x: Tensor) -> Tensor:
    y = model(x) + 1
    y.mul_(2)
    total: Tensor = y[:, 1:].sum()
    return total


STEPS: dict[str, Step] = {
    "a sum": lambda model, x: model(x).sum(),
    "divided by a number": lambda model, x: model(x).sum() / 2,
    "times a fraction": lambda model, x: (model(x).sum() * 0.7).exp() / 0.3,
    "hooked": hooked,
    "written": in_place,
    "own function": lambda model, x: Scaled.apply(model(x), 3.0).sum(),  # type: ignore[no-untyped-call]
    "checkpoint": lambda model, x: checkpoint(model, x, use_reentrant=False).sum(),
    "half the parameters": lambda model, x: model[0](x).std() - x.mean() / 4,
}


def gradients(step: Step, model: nn.Sequential, x: Tensor) -> list[Tensor | None]:
    """What a step adds to the gradients of the parameters and of the input."""
    given = x.clone().requires_grad_()
    model.zero_grad()
    step(model, given).backward()
    return [given.grad, *(parameter.grad for parameter in model.parameters())]


def check(mode: str, device: str, step: Step, *, forward_too: bool) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(device)
    eager = copy.deepcopy(model)
    backend = get_npu_backend(compiler_config=CompilerConfig.from_options({"mode": mode}))
    compiled = torch.compile(step, backend=backend) if forward_too else step
    for rows in (3, 3, 5, 3):
        x = torch.randn(rows, 4, device=device)
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend=backend)):
            found = gradients(compiled, model, x)
        torch.testing.assert_close(found, gradients(step, eager, x))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_gradients_are_those_of_eager(device: str, name: str, mode: str) -> None:
    check(mode, device, STEPS[name], forward_too=False)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_the_hooks_of_a_compiled_forward_are_handed_on(device: str, mode: str) -> None:
    check(mode, device, hooked, forward_too=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_gradients_of_a_compiled_forward_are_those_of_eager(device: str, name: str, mode: str) -> None:
    check(mode, device, STEPS[name], forward_too=True)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("norm", [lambda: nn.LayerNorm(8), lambda: nn.BatchNorm1d(8)], ids=["layer", "batch"])
def test_gradients_of_norms_have_the_type_of_their_weights(
    norm: Callable[[], nn.Module], dtype: torch.dtype, mode: str, device: str
) -> None:
    torch.manual_seed(0)
    model = norm().to(device, dtype)
    eager = copy.deepcopy(model)
    backend = get_npu_backend(compiler_config=CompilerConfig.from_options({"mode": mode}))
    for _ in range(3):
        x = torch.randn(16, 8, device=device).to(dtype)
        model.zero_grad()
        eager.zero_grad()
        eager(x).square().sum().backward()
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend=backend)):
            model(x).square().sum().backward()
        for mine, theirs in zip(model.parameters(), eager.parameters(), strict=True):
            assert mine.grad is not None
            assert mine.grad.dtype is dtype
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=3e-2, atol=3e-1)
