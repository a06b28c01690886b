"""Results that are views of what a `torch.autograd.Function` gives have the gradients of eager."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from torch.utils.checkpoint import checkpoint

from air_backend import CompilerConfig, get_npu_backend
from air_backend._results_of_functions import calls_functions, with_backward
from air_backend.eager_calls import BackwardLost

MODES = ("reduce-overhead", "max-autotune")


class Doubled(torch.autograd.Function):
    """Its argument, whose gradient is twice that of the result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 2


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 3

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 5


class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.t()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0].t() * 2


class Written(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 2


class Multiplied(Written):
    """By an operator of Python, where `Written` calls a method."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x *= 3
        ctx.mark_dirty(x)
        return x


class Assigned(torch.autograd.Function):
    """As solvers of differential equations collect their steps."""

    @staticmethod
    def forward(ctx: Any, steps: Tensor, value: Tensor, at: int) -> Tensor:
        ctx.at = at
        steps.data[..., at] = value
        return steps

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], gradients[0][..., ctx.at], None


def doubled(x: Tensor) -> Tensor:
    result: Tensor = Doubled.apply(x)  # type: ignore[no-untyped-call]
    return result


def tripled(x: Tensor) -> Tensor:
    result: Tensor = Tripled.apply(x)  # type: ignore[no-untyped-call]
    return result


def turned(x: Tensor) -> Tensor:
    result: Tensor = Turned.apply(x)  # type: ignore[no-untyped-call]
    return result


def written(x: Tensor) -> Tensor:
    result: Tensor = Written.apply(x)  # type: ignore[no-untyped-call]
    return result


def multiplied(x: Tensor) -> Tensor:
    result: Tensor = Multiplied.apply(x)  # type: ignore[no-untyped-call]
    return result


def assigned(steps: Tensor, value: Tensor, at: int) -> Tensor:
    result: Tensor = Assigned.apply(steps, value, at)  # type: ignore[no-untyped-call]
    return result


def solved(x: Tensor) -> tuple[Tensor, ...]:
    steps = assigned(torch.empty(*x.shape, 3), x * 2, 0)
    y = x + steps[..., :1].sum(-1)
    torch._dynamo.graph_break()
    steps = assigned(steps, y * 3, 1)
    z = x + steps[..., :2].sum(-1)
    steps = assigned(steps, z * 3, 2)
    return steps.matmul(torch.tensor([1.0, 2.0, 3.0])), steps[..., -1]


def written_and_dropped(x: Tensor) -> tuple[Tensor, ...]:
    written(x)
    return (x + 1,)


def both(x: Tensor) -> tuple[Tensor, ...]:
    y = doubled(x)
    return y, y[1:], x[1:]


CAPTURED: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "a part": lambda x: (doubled(x)[:1],),
    "the whole": lambda x: (doubled(x),),
    "of a view": lambda x: (doubled(x[1:])[:, 1:],),
    "turned": lambda x: (turned(x)[:2],),
    "beside the argument": both,
    "of a value": lambda x: (doubled(x * 1.5)[:1],),
    "of a value, turned": lambda x: (turned(x * 1.5)[1:],),
    "of a value, expanded": lambda x: (doubled(x.sum(0, keepdim=True)).expand(4, 3),),
    "parts of a value": lambda x: doubled(x * 1.5).split(1),
    "parts of a value that lie over one another": lambda x: (lambda y: (y, y[1:]))(turned(x * 1.5)),
    "parts of a function's own value": lambda x: doubled(tripled(x)).chunk(2, 1),
    "inside a checkpoint": lambda x: (checkpoint(doubled, x, use_reentrant=False)[:1],),
    "of a value that is written": lambda x: (written(x * 1.5)[:1],),
}
EAGER: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "beside its value": lambda x: (lambda y: (doubled(y)[:1], y))(x * 1.5),
    "an argument that is written": lambda x: (written(x),),
    "an argument that is written by an operator": lambda x: (multiplied(x),),
    "a part of an argument that is written": lambda x: (written(x[:1]),),
}
if torch.__version__ >= "2.13":  # Dynamo itself, with backend="eager", loses this backward in torch 2.11
    EAGER["written and dropped"] = written_and_dropped


def outcome(function: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Any, ...]:
    """Results, their strides, whether they lie in the argument, and the gradient of what that was made of."""
    made_of = torch.arange(1.0, 7.0).reshape(2, 3).requires_grad_()
    x = made_of * 1
    results = function(x)
    sum((one * one.detach()).sum() for one in results).backward()  # type: ignore[union-attr]
    shared = [one.untyped_storage()._cdata == x.untyped_storage()._cdata for one in results]
    return [one.detach() for one in results], [one.stride() for one in results], shared, made_of.grad


def compiled(function: Callable[..., Any], mode: Any, wanted: Any = "split") -> Any:
    config = CompilerConfig()
    config.mode = mode
    config.air.uncapturable = config.air.unsupported = wanted
    return torch.compile(function, backend=get_npu_backend(compiler_config=config))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CAPTURED)
def test_N25_a_view_of_what_a_function_gives_has_the_gradient_of_the_function(name: str, mode: str) -> None:
    expected, run = outcome(CAPTURED[name]), compiled(CAPTURED[name], mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BackwardLost)
        for _ in range(3):
            torch.testing.assert_close(outcome(run), expected)


def test_N25_steps_that_a_function_collects_have_the_gradients_of_eager() -> None:
    """In max-autotune torch refuses what the second graph writes, a view among several results, as with aot_eager."""
    expected, run = outcome(solved), compiled(solved, "reduce-overhead")
    for _ in range(3):
        torch.testing.assert_close(outcome(run), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", EAGER)
def test_N23_what_would_lose_the_backward_of_a_function_runs_eagerly_with_one_warning(
    name: str, mode: str
) -> None:
    expected, run = outcome(EAGER[name]), compiled(EAGER[name], mode)
    with pytest.warns(BackwardLost, match="its backward would be lost") as told:
        torch.testing.assert_close(outcome(run), expected)
    assert len([one for one in told if isinstance(one.message, BackwardLost)]) == 1
    assert "Function" in str(told[0].message)
    assert __file__ in str(told[0].message)
    torch.testing.assert_close(outcome(run), expected)


@pytest.mark.parametrize("mode", MODES)
def test_such_a_graph_is_an_error_with_its_line_where_one_is_asked_for(mode: str) -> None:
    run = compiled(EAGER["an argument that is written"], mode, "error")
    with pytest.raises(BackendCompilerFailed, match=rf"mark_dirty.*\n +at +{__file__}"):
        outcome(run)


def test_values_and_detached_results_stay_what_they_are() -> None:
    x = torch.ones(2, requires_grad=True)
    given = [3, x.detach(), x * 2, None]
    assert all(one is other for one, other in zip(with_backward(given, [x]), given, strict=True))


def test_a_graph_without_such_functions_is_left_alone() -> None:
    gm = torch.fx.symbolic_trace(lambda x: x * 2)
    assert not calls_functions(gm)
