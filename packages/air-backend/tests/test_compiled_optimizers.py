"""Steps of torch's optimizers, compiled: they keep the number of the step on the CPU and write it in each call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.optim import SGD, Adagrad, AdamW, NAdam, Optimizer, RMSprop

MODES = ["reduce-overhead", "max-autotune"]
STEPS = 6

OPTIMIZERS: dict[str, Callable[[list[Tensor]], Optimizer]] = {
    "sgd": lambda weights: SGD(weights, lr=0.1, momentum=0.9, foreach=False),
    "adamw": lambda weights: AdamW(weights, lr=0.1, foreach=False),
    "adamw with a tensor as rate": lambda weights: AdamW(weights, lr=torch.tensor(0.1), foreach=False),
    "nadam": lambda weights: NAdam(weights, foreach=False),
    "rmsprop": lambda weights: RMSprop(weights, momentum=0.5, foreach=False),
    "adagrad": lambda weights: Adagrad(weights, foreach=False),
}


def trained(
    make: Callable[[list[Tensor]], Optimizer],
    device: str,
    compiled: Callable[[Callable[[], None]], Callable[[], None]],
) -> list[Tensor]:
    """The weights after some steps."""
    model = nn.Linear(4, 3).to(device)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.arange(float(weight.numel())).reshape(weight.shape) / 7)
    optimizer = make(list(model.parameters()))

    def step() -> None:
        optimizer.step()

    run = compiled(step)
    for number in range(STEPS):
        model((torch.arange(8.0).reshape(2, 4) - number).to(device)).square().sum().backward()
        run()
        optimizer.zero_grad()
    return [weight.detach() for weight in model.parameters()]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit", "ignore:.*step.*capturable")
def test_a_compiled_optimizer_makes_the_steps_of_eager(name: str, mode: str, device: str) -> None:
    torch._dynamo.reset()
    make = OPTIMIZERS[name]
    found = trained(make, device, lambda step: torch.compile(step, backend="air", options={"mode": mode}))
    torch._dynamo.reset()
    torch.testing.assert_close(found, trained(make, device, lambda step: step), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_the_number_of_the_step_is_no_reason_to_capture_again(accelerator: str) -> None:
    torch._dynamo.reset()
    seen: list[int] = []

    def compiled(step: Callable[[], None]) -> Callable[[], None]:
        run = torch.compile(step, backend="air", options={"mode": "reduce-overhead"})

        def counted() -> None:
            run()
            seen.append(counters["air"]["captures"])

        return counted

    trained(OPTIMIZERS["adamw"], accelerator, compiled)
    assert seen[1] == seen[-1]


def test_thirty_steps_of_training_capture_each_half_once(device: str) -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).to(device)
    optimizer = AdamW(model.parameters())
    run = torch.compile(model, backend="air", options={"mode": "reduce-overhead"})
    before = counters["air"]["captures"]
    for number in range(30):
        run((torch.arange(8.0).reshape(2, 4) - number).to(device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert counters["air"]["captures"] - before == 2
