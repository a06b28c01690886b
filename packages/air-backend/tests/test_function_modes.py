"""Calls inside a mode of torch functions give what eager gives there: the mode is in the graph, and only there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from air_backend import CompilerConfig, get_npu_backend

MODES = ("reduce-overhead", "max-autotune")
W = torch.arange(12.0).reshape(4, 3) / 10


class PlusOne(TorchFunctionMode):
    """Every result of a function is larger by one."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        is_number = isinstance(result, Tensor) and result.is_floating_point()
        return result + 1 if is_number else result


def layer(x: Tensor) -> Tensor:
    return (x @ W).sin() * x[:, :3]


def views(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    return y[0], x.t()


def compiled(mode: Any, function: Any, **given: Any) -> Any:
    torch._dynamo.reset()
    config = CompilerConfig()
    config.mode = mode
    return torch.compile(function, backend=get_npu_backend(compiler_config=config, **given))


def seen(function: Any, seed: int, *, trains: bool) -> list[Tensor]:
    """Results of a call inside the mode, and its gradient, which is computed inside as well."""
    torch.manual_seed(seed)
    x = torch.randn(5, 4, requires_grad=trains)
    if not trains:
        with PlusOne():
            return [function(x)]
    with PlusOne():
        results = function(x)
        (found,) = torch.autograd.grad(results, x, torch.ones(5, 3))
    return [results.detach(), found]


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_N25_results_and_gradients_inside_a_mode_are_those_of_eager(
    mode: str, is_known: bool, trains: bool
) -> None:
    run = compiled(mode, layer)
    if is_known:
        run(torch.ones(5, 4, requires_grad=trains))
    for seed in range(3):
        torch.testing.assert_close(seen(run, seed, trains=trains), seen(layer, seed, trains=trains))
    x = torch.randn(5, 4)
    torch.testing.assert_close(run(x), layer(x))


@pytest.mark.parametrize("mode", MODES)
def test_N25_also_where_results_are_views_of_arguments(mode: str) -> None:
    run, x = compiled(mode, views), torch.arange(6.0).reshape(2, 3)
    for _ in range(3):
        with PlusOne():
            found, expected = run(x), views(x)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mode", MODES)
def test_N25_many_gradients_at_once_too(mode: str) -> None:
    run, wanted = compiled(mode, layer), torch.randn(7, 5, 3)
    for _ in range(2):
        x = torch.arange(20.0).reshape(5, 4).requires_grad_()
        with PlusOne():
            found, expected = (
                torch.autograd.grad(one(x), x, wanted, is_grads_batched=True) for one in (run, layer)
            )
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_is_on_again_after_a_call_that_failed(mode: str) -> None:
    def decomposed(x: Tensor) -> Tensor:
        raise ValueError("not today")

    given: dict[str, Any] = {"custom_decompositions": {torch.ops.aten.sin.default: decomposed}}
    with PlusOne():
        with pytest.raises(Exception, match="not today"):
            compiled(mode, layer, **given)(torch.ones(5, 4))
        assert torch.ones(1).item() == 2


@pytest.mark.parametrize("mode", MODES)
def test_N25_a_default_device_is_such_a_mode(mode: str) -> None:
    def made(x: Tensor) -> Tensor:
        return x + torch.arange(3)

    run = compiled(mode, made)
    for _ in range(3):
        with torch.device("cpu"):
            assert torch.equal(run(torch.ones(3)), made(torch.ones(3)))
