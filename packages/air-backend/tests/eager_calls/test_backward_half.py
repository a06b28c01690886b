"""Many gradients at once, and gradients after a reset or under autocast, are those of eager; one replays the graph."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from air_backend import CompilerConfig, get_npu_backend
from air_backend.eager_calls import CastRefused, GradientsBatched, GradientsCast, GradientsRefused

MODES = ("reduce-overhead", "max-autotune")
W = torch.arange(12.0).reshape(4, 3) / 10


def layer(x: Tensor) -> Tensor:
    return (x @ W).sin() * x.sum()


def heads(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    hidden = torch.nn.functional.layer_norm(x, (4,))
    return hidden @ W, torch.softmax(x, -1), x[:, :2].cumsum(0)


def compiled(mode: Any, function: Any, wanted: Any = "split") -> Any:
    torch._dynamo.reset()
    config = CompilerConfig()
    config.mode = mode
    config.air.uncapturable = config.air.unsupported = wanted
    return torch.compile(function, backend=get_npu_backend(compiler_config=config))


def many(function: Any, seed: int, used: tuple[int, ...] = (0, 1, 2)) -> Tensor:
    """Seven gradients at once; of several results only some have a gradient."""
    torch.manual_seed(seed)
    x = torch.randn(5, 4, requires_grad=True)
    results = function(x)
    results = [results] if isinstance(results, Tensor) else [results[at] for at in used]
    wanted = [torch.randn(7, *result.shape) for result in results]
    (found,) = torch.autograd.grad(results, x, wanted, is_grads_batched=True)
    return found


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::air_backend.eager_calls.GradientsBatched")
def test_N25_many_gradients_at_once_are_those_of_eager(mode: str, is_known: bool) -> None:
    run = compiled(mode, layer)
    x = torch.randn(5, 4, requires_grad=True)
    if is_known:
        run(x).sum().backward()
    for seed in range(3):
        torch.testing.assert_close(many(run, seed), many(layer, seed))
    (found,), (expected,) = (torch.autograd.grad(one(x).sum(), x) for one in (run, layer))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("used", [(0,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::air_backend.eager_calls.GradientsBatched")
def test_N25_also_where_only_some_results_have_one(mode: str, used: tuple[int, ...]) -> None:
    run = compiled(mode, heads)
    for seed in range(2):
        torch.testing.assert_close(many(run, seed, used), many(heads, seed, used))


@pytest.mark.parametrize("used", [(0,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::air_backend.eager_calls.GradientsBatched")
def test_N25_also_where_they_are_laid_out_otherwise_than_in_the_trace(
    mode: str, used: tuple[int, ...]
) -> None:
    """Rows of a unit matrix are one column each, given to every row of a result; others are turned."""
    found = []
    for run in (compiled(mode, heads), heads):
        x = torch.arange(20.0).reshape(5, 4).requires_grad_()
        results = [run(x)[at] for at in used]
        wanted = [torch.eye(one.shape[1])[:2, None].expand(2, *one.shape) for one in results]
        wanted[0] = torch.randn(2, *results[0].t().shape, generator=torch.Generator().manual_seed(0)).mT
        found.append(torch.autograd.grad(results, x, wanted, is_grads_batched=True)[0])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::air_backend.eager_calls.GradientsBatched")
def test_N25_a_jacobian_is_that_of_eager(mode: str, vectorize: bool) -> None:
    run, x = compiled(mode, layer), torch.arange(8.0).reshape(2, 4)
    found, expected = (
        torch.autograd.functional.jacobian(one, x, vectorize=vectorize) for one in (run, layer)
    )
    torch.testing.assert_close(found, expected)


def test_such_calls_are_said_once_with_the_line_where_the_graph_begins() -> None:
    run = compiled("reduce-overhead", layer)
    with pytest.warns(GradientsBatched, match=r"return \(x @ W\)"):
        many(run, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        many(run, 1)


@pytest.mark.parametrize("mode", MODES)
def test_they_are_an_error_where_one_is_asked_for(mode: str) -> None:
    run = compiled(mode, layer, "error")
    with pytest.raises(GradientsRefused, match="one after another"):
        many(run, 0)


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_N25_a_reset_between_forward_and_backward_changes_nothing(mode: str, is_used: bool) -> None:
    run = compiled(mode, layer)
    x = torch.arange(20.0).reshape(5, 4).requires_grad_()
    expected = torch.autograd.grad(layer(x).sum(), x)
    result = run(x)
    if is_used:
        torch.autograd.grad(result.sum(), x, retain_graph=True)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.autograd.grad(result.sum(), x), expected)
    torch.testing.assert_close(torch.autograd.grad(run(x).sum(), x), expected)


class Turning(TorchDispatchMode):
    """The sine is another one inside."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        return -found if func is torch.ops.aten.sin.default else found


@pytest.mark.parametrize("mode", MODES)
def test_N25_a_mode_sees_the_operators_of_a_backward_whose_forward_ran_outside(mode: str) -> None:
    def waves(x: Tensor) -> Tensor:
        return x.cos() * 2

    run = compiled(mode, waves)
    for _ in range(3):
        x = torch.arange(20.0).requires_grad_()
        with_mode, results = [], (waves(x), run(x))
        for result in results:
            with Turning():  # type: ignore[no-untyped-call]  # torch's own constructor
                with_mode.append(torch.autograd.grad(result.sum(), x, retain_graph=True))
        torch.testing.assert_close(with_mode[1], with_mode[0])
        outside = [torch.autograd.grad(result.sum(), x) for result in results]
        torch.testing.assert_close(outside[1], outside[0])


def gradient(run: Any, *, cast: bool, cast_before: bool = False) -> Tensor:
    x = torch.linspace(-3, 3, 20).reshape(5, 4).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=cast_before):
        result = run(x)
    with torch.autocast("cpu", torch.bfloat16, enabled=cast):
        (found,) = torch.autograd.grad(result.sum(), x)
    return found


@pytest.mark.parametrize("order", [(True, False, False, True), (False, True, False, False)])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::air_backend.eager_calls.GradientsCast")
def test_N25_a_backward_is_cast_where_it_is_called_inside_autocast_and_nowhere_else(
    mode: str, order: tuple[bool, ...]
) -> None:
    run, plain = compiled(mode, layer), gradient(layer, cast=False)
    assert not torch.equal(gradient(layer, cast=True), plain)
    for cast in order:
        torch.testing.assert_close(gradient(run, cast=cast), gradient(layer, cast=cast), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_N25_nothing_runs_eagerly_where_the_forward_was_cast_as_well(mode: str) -> None:
    run = compiled(mode, layer)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GradientsCast)
        for _ in range(3):
            found = gradient(run, cast=True, cast_before=True)
            expected = gradient(layer, cast=True, cast_before=True)
            torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("mode", MODES)
def test_N25_nor_where_autocast_casts_nothing_that_the_backward_has(mode: str) -> None:
    def waves(x: Tensor) -> Tensor:
        return x.sin() * x

    run = compiled(mode, waves)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GradientsCast)
        for cast in (True, False, True):
            torch.testing.assert_close(gradient(run, cast=cast), gradient(waves, cast=False))


def test_a_backward_that_is_cast_is_said_once_with_the_line_where_the_graph_begins() -> None:
    run = compiled("reduce-overhead", layer)
    with pytest.warns(GradientsCast, match=r"return \(x @ W\)[^$]*outside of torch.autocast"):
        gradient(run, cast=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient(run, cast=True)


@pytest.mark.parametrize("mode", MODES)
def test_a_backward_that_is_cast_is_an_error_where_one_is_asked_for(mode: str) -> None:
    run = compiled(mode, layer, "error")
    gradient(run, cast=False)
    with pytest.raises(CastRefused, match=r"outside of torch\.autocast"):
        gradient(run, cast=True)


@pytest.mark.npu("an engine of the device compiles the backward beside the forward, and a reset closes both")
@pytest.mark.parametrize("mode", MODES)
def test_N25_nor_on_an_npu(mode: str) -> None:
    def waves(x: Tensor) -> Tensor:
        return x.sin() * x.sum()

    run = compiled(mode, waves)
    x = torch.arange(20.0, device="npu").requires_grad_()
    result = run(x)
    torch._dynamo.reset()
    found, expected = torch.autograd.grad(result.sum(), x), torch.autograd.grad(waves(x).sum(), x)
    torch.testing.assert_close(found, expected)
