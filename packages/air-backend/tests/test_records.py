"""A reset of Dynamo closes what Dynamo had compiled; what a program compiled by itself goes on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from air_backend import CompilerConfig, _records, compile_fx, get_npu_backend

MODES = ("reduce-overhead", "max-autotune")


def waves(x: Tensor) -> Tensor:
    return x.sin() * 2


def config_of(mode: Any) -> CompilerConfig:
    config = CompilerConfig()
    config.mode = mode
    return config


def functional(x: Tensor) -> fx.GraphModule:
    return make_fx(lambda x: (waves(x),))(x)


def of_torchs_functions(x: Tensor) -> fx.GraphModule:
    return fx.symbolic_trace(waves)


@pytest.mark.parametrize("traced", [functional, of_torchs_functions])
@pytest.mark.parametrize("mode", MODES)
def test_a_graph_that_was_given_to_compile_fx_outlives_a_reset(mode: str, traced: Any) -> None:
    x = torch.arange(4.0)
    run = compile_fx(traced(x), [x], config_of(mode))
    for _ in range(3):
        run(x)
    torch._dynamo.reset()
    (found,) = torch.utils._pytree.tree_leaves(run(x + 1))
    torch.testing.assert_close(found, waves(x + 1))


@pytest.mark.parametrize("mode", MODES)
def test_what_dynamo_compiled_is_closed_by_a_reset_and_compiled_again(mode: str) -> None:
    torch._dynamo.reset()
    run, x = torch.compile(waves, backend=get_npu_backend(compiler_config=config_of(mode))), torch.arange(4.0)
    run(x)
    ((record, _),) = [pair for pair in _records.alive() if pair[0].is_dynamos]
    torch._dynamo.reset()
    assert record.closed
    assert not [record for record, _ in _records.alive() if record.is_dynamos]
    torch.testing.assert_close(run(x), waves(x))


def test_each_reset_closes_what_was_compiled_since_the_last() -> None:
    torch._dynamo.reset()
    run, x = torch.compile(waves, backend=get_npu_backend(compiler_config=config_of(MODES[0]))), torch.ones(4)
    for _ in range(3):
        run(x)
        torch._dynamo.reset()
        assert not [record for record, _ in _records.alive() if record.is_dynamos]
