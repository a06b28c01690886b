"""What an operator writes although its schema says that it reads it, is written once in a step of training."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._functorch import config
from torch.utils.checkpoint import checkpoint

from air_backend.errors import BudgetIgnored
from air_graph import _effects, effects_of, register_hidden_writes

JOINT = {"experimental_config.aot_config_enable_joint_graph": True}
MODES = ("reduce-overhead", "max-autotune")

_unique = itertools.count()


def tallied(x: Tensor, tally: Tensor) -> Tensor:
    tally.data.add_(1)  # as kernels of devices do: its version stays
    return x.abs()


@pytest.fixture
def tally() -> Iterator[Any]:
    """An operator that counts in its second argument how often it ran."""
    namespace = f"written_once_{next(_unique)}"
    library = torch.library.Library(namespace, "FRAGMENT")
    library.define("tally(Tensor x, Tensor tally) -> Tensor")
    library.impl("tally", tallied, "CompositeExplicitAutograd")
    library.impl("tally", lambda x, tally: torch.empty_like(x), "Meta")
    register_hidden_writes(f"{namespace}::tally", ("tally",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield getattr(torch.ops, namespace).tally.default
    _effects._hidden_writes.pop(f"{namespace}::tally.default")
    effects_of.cache_clear()
    library._destroy()


class InForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, count: Tensor, tally: Any) -> Tensor:
        ctx.save_for_backward(x, count)
        result: Tensor = x * tally(x, count)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, count = ctx.saved_tensors
        return gradients[0] * x * (count + 1), None, None


class InBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, count: Tensor, tally: Any) -> Tensor:
        ctx.save_for_backward(x, count)
        ctx.tally = tally
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, count = ctx.saved_tensors
        return gradients[0] * ctx.tally(x, count), None, None


def step(function: Any) -> list[Any]:
    x, count = torch.full((3,), 2.0, requires_grad=True), torch.zeros(1)
    seen: list[Any] = []
    for _ in range(3):
        loss = function(x, count)
        seen += [loss.item(), count.item()]
        loss.backward()
        seen += [count.item(), x.grad.tolist()]  # type: ignore[union-attr]  # the backward has just been
    return seen


@pytest.mark.parametrize("options", [{}, JOINT], ids=["divided", "joined"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", [InForward, InBackward], ids=lambda c: c.__name__)
def test_a_hidden_write_is_done_once_and_where_the_program_does_it(
    where: Any, mode: str, options: dict[str, Any], tally: Any
) -> None:
    def loss(x: Tensor, count: Tensor) -> Tensor:
        result: Tensor = where.apply(x, count, tally).sum()
        return result

    assert step(torch.compile(loss, backend="air", options={"mode": mode, **options})) == step(loss)


def test_a_hidden_write_is_not_repeated_for_a_smaller_memory_budget(tally: Any) -> None:
    def loss(x: Tensor, count: Tensor) -> Tensor:
        result: Tensor = InForward.apply(x * 2, count, tally).exp().sum()  # type: ignore[no-untyped-call]
        return result

    compiled = torch.compile(loss, backend="air", options={"mode": "reduce-overhead"})
    with config.patch(activation_memory_budget=0.0), pytest.warns(BudgetIgnored, match="has to run once"):
        found = step(compiled)
    assert found == step(loss)


@pytest.mark.parametrize("options", [{}, JOINT], ids=["divided", "joined"])
def test_a_hidden_write_in_the_backward_of_an_operator_is_done_where_nobody_takes_its_result(
    options: dict[str, Any], tally: Any
) -> None:
    namespace = tally.namespace
    library = torch.library.Library(namespace, "FRAGMENT")
    library.define("doubled(Tensor x, Tensor count) -> Tensor")
    library.impl("doubled", lambda x, count: x * 2, "CompositeExplicitAutograd")
    library.impl("doubled", lambda x, count: torch.empty_like(x), "Meta")

    def backward(ctx: Any, gradient: Tensor) -> Any:
        tally(gradient, *ctx.saved_tensors)
        return gradient * 2, None

    torch.library.register_autograd(
        f"{namespace}::doubled",
        backward,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
        lib=library,
    )

    def loss(x: Tensor, count: Tensor) -> Tensor:
        result: Tensor = getattr(torch.ops, namespace).doubled(x, count).sum()
        return result

    compiled = torch.compile(loss, backend="air", options={"mode": "reduce-overhead", **options})
    assert step(compiled) == step(loss)
    library._destroy()


@pytest.mark.skipif(
    torch.__version__ < "2.13", reason="torch 2.11 computes it once, whoever divides the graph"
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_hidden_write_that_a_checkpoint_repeats_is_not_joined_into_one(tally: Any) -> None:
    def loss(x: Tensor, count: Tensor) -> Tensor:
        def part(x: Tensor, count: Tensor) -> Tensor:
            result: Tensor = (x * tally(x.detach(), count)).sin()
            return result

        result: Tensor = checkpoint(part, x, count.detach(), use_reentrant=False).sum()
        return result

    assert step(torch.compile(loss, backend="air", options={**JOINT})) == step(loss)
