"""Calls inside a level of forward-mode AD give eager's tangents, whether or not the graph was compiled before."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from air_backend import CompilerConfig, compile_fx, get_npu_backend, pin
from air_backend.eager_calls import TangentsLost, TangentsRefused

MODES = ("reduce-overhead", "max-autotune")
W = torch.arange(12.0).reshape(4, 3) / 10


def layer(x: Tensor) -> Tensor:
    return (x @ W).sin() * 2


def waves(x: Tensor) -> Tensor:
    return x.sin() * 2


def compiled(mode: Any, wanted: Any = "split", function: Any = layer) -> Any:
    torch._dynamo.reset()
    config = CompilerConfig()
    config.mode = mode
    config.air.uncapturable = config.air.unsupported = wanted
    return torch.compile(function, backend=get_npu_backend(compiler_config=config))


def pushed(function: Any, x: Tensor, tangent: Tensor) -> tuple[Tensor, Tensor]:
    with forward_ad.dual_level():
        value, found = forward_ad.unpack_dual(function(forward_ad.make_dual(x, tangent)))
        assert found is not None
        return value, found


@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::air_backend.eager_calls.TangentsLost")
def test_N25_tangents_are_those_of_eager_in_every_call(mode: str, is_known: bool, is_trained: bool) -> None:
    run = compiled(mode)
    if is_known:
        run(torch.ones(5, 4, requires_grad=is_trained))
    for seed in range(4):
        torch.manual_seed(seed)
        x, tangent = torch.randn(5, 4, requires_grad=is_trained), torch.randn(5, 4)
        torch.testing.assert_close(pushed(run, x, tangent), pushed(layer, x, tangent))
    x = torch.randn(5, 4)
    torch.testing.assert_close(run(x), layer(x))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::air_backend.eager_calls.TangentsLost")
def test_N25_a_jacobian_in_forward_mode_is_that_of_eager(mode: str) -> None:
    run, x = compiled(mode), torch.arange(8.0).reshape(2, 4)
    run(x)
    found, expected = (
        torch.autograd.functional.jacobian(one, x, vectorize=True, strategy="forward-mode")
        for one in (run, layer)
    )
    torch.testing.assert_close(found, expected)


def test_such_calls_are_said_once_with_the_line_where_the_graph_begins() -> None:
    run = compiled("reduce-overhead")
    x = torch.ones(5, 4)
    with pytest.warns(TangentsLost, match=r"return \(x @ W\)"):
        pushed(run, x, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pushed(run, x, x)


@pytest.mark.parametrize("mode", MODES)
def test_they_are_an_error_where_one_is_asked_for(mode: str) -> None:
    with pytest.raises(TangentsRefused):
        pushed(compiled(mode, "error"), torch.ones(5, 4), torch.ones(5, 4))


def test_a_pinned_function_and_a_compiled_graph_refuse_such_a_call() -> None:
    x = torch.ones(5, 4)
    with torch.no_grad():
        pinned = pin(compiled("reduce-overhead", function=waves), x)
    graph = make_fx(lambda x: (waves(x),), tracing_mode="fake")(x)
    for function in (pinned, compile_fx(graph, [x])):
        with pytest.raises(TangentsRefused):
            pushed(function, x, x)
