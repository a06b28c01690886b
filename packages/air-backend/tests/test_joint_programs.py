"""Random steps of training, with forward and backward as one graph: eager's loss, gradients and written arguments."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from air_backend import _records

SIZE: Final = (3, 4)
PROGRAMS: Final = 8

UNARY: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "sin": torch.sin,
    "silu": F.silu,
    "gelu": F.gelu,
    "softmax": lambda x: x.softmax(-1),
    "norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "standard": lambda x: x / (x.std(0, keepdim=True) + 1),
    "flipped": lambda x: x.flip(0).roll(1, 1),
    "transposed": lambda x: (x.t() @ x).sum(0) + x,
    "sliced": lambda x: torch.cat([x[:, 1:], x[:, :1] * 2], 1),
    "chunks": lambda x: torch.cat([torch.mul(*x.chunk(2, 1)), x.narrow(1, 1, 2)], 1),
    "picked": lambda x: x[torch.tensor([2, 0, 0], device=x.device)],
    "masked": lambda x: x.masked_fill(x > 0.5, 0.25),
    "cumulated": lambda x: x.cumsum(0) - x.amax(1, keepdim=True),
    "root": lambda x: (x * x + 1).sqrt().log(),
    "padded": lambda x: F.pad(x[:, 1:3], (1, 1), value=0.5),
    "logsumexp": lambda x: x.logsumexp(0) + x,
    "without": lambda x: x + x.detach(),
    "expanded": lambda x: x.mean(0).expand(3, 4) * x,
}
BINARY: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "sum": lambda x, y: x + 2 * y,
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / (y.abs() + 1),
    "chosen": lambda x, y: torch.where(x > y, x, y * y),
    "matrices": lambda x, y: x @ y.t() @ x,
    "rows": lambda x, y: x.index_copy(0, torch.tensor([1], device=x.device), y[:1]),
    "added": lambda x, y: x.index_add(1, torch.tensor([0, 0], device=x.device), y[:, :2]),
    "scattered": lambda x, y: x.slice_scatter(y[1:2], 0, 2, 3),
}
LOSSES: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "mean": lambda x: x.square().mean(),
    "sum": torch.sum,
    "entropy": lambda x: F.cross_entropy(x, torch.arange(3, device=x.device)),
    "huber": lambda x: F.huber_loss(x, torch.zeros_like(x)),
    "norm": lambda x: x.norm() + 1,
    "one": lambda x: x[0, 1],
}


@dataclass(frozen=True)
class Program:
    """Steps that each take earlier values, a loss of the last one, and what the caller does with it."""

    steps: Sequence[tuple[str, tuple[int, ...]]]
    loss: str
    writes: bool
    extra: bool
    factor: float
    learnt: tuple[bool, bool, bool]
    """Which of the three weights take gradients; the last one is what the first step takes."""

    def __call__(self, *given: Tensor) -> Any:
        values = list(given)
        if self.writes:
            values[2] = given[2].clone()
            given[2].add_(given[0].detach())
        for name, places in self.steps:
            function: Callable[..., Tensor] = UNARY.get(name) or BINARY[name]
            values.append(function(*(values[place] for place in places)))
        loss = LOSSES[self.loss](values[-1])
        return (loss, values[-1].detach()) if self.extra else (loss,)


def drawn(seed: int) -> Program:
    draw = random.Random(seed)
    steps: list[tuple[str, tuple[int, ...]]] = []
    for number in range(draw.randint(2, 7)):
        name = draw.choice([*UNARY, *BINARY])
        others = [draw.randrange(4 + number)] if name in BINARY else []
        steps.append((name, (3 + number, *others)))
    return Program(
        steps,
        draw.choice([*LOSSES]),
        draw.random() < 0.3,
        draw.random() < 0.3,
        draw.choice([1.0, 1.0, 0.5, -3.0, 65536.0]),
        (draw.random() < 0.8, draw.random() < 0.8, True),
    )


def step(program: Program, call: Callable[..., Any], device: str, seed: int) -> list[Tensor]:
    """What the caller of one step sees: results, gradients, and arguments."""
    made = torch.Generator().manual_seed(seed)
    leaves = [torch.randn(SIZE, generator=made).to(device).requires_grad_(on) for on in program.learnt]
    written = torch.randn(SIZE, generator=made).to(device)
    loss, *rest = call(*leaves[:2], written, leaves[2])
    (loss * program.factor).backward()
    gradients = [leaf.grad for leaf in leaves]
    return [loss.detach(), *rest, written, *(each for each in gradients if each is not None)]


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_random_steps_of_training_give_what_eager_gives(mode: str, device: str) -> None:
    options: dict[str, Any] = {"mode": mode, "experimental_config.aot_config_enable_joint_graph": True}
    joined = 0
    for seed in range(PROGRAMS if device == "cpu" else PROGRAMS // 4):
        program = drawn(seed)
        torch._dynamo.reset()
        call = torch.compile(program.__call__, backend="air", options=options)
        for again in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mine, theirs = step(program, call, device, again), step(program, program, device, again)
            assert len(mine) == len(theirs)
            for one, other in zip(mine, theirs, strict=True):
                scale = max(1.0, float(other.abs().max()))
                torch.testing.assert_close(
                    one / scale, other / scale, rtol=1e-3, atol=1e-4, msg=f"{program}: {{}}".format
                )
        joined += any(record.role == "joint" for record, _ in _records.alive())
    assert joined >= 0.9 * seed, "most of these losses can be joined"
