"""run_eagerly: in max-autotune nothing else acts; in reduce-overhead the FX passes do, and notices say the rest."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, fx

from air_backend import CompilerConfig, _records, get_npu_backend


def chain(x: Tensor) -> Tensor:
    return torch.relu(x + 1).mul(2).to(torch.float32)


def compiled_once(config: CompilerConfig) -> Any:
    x = torch.randn(4, 4)
    result = torch.compile(chain, backend=get_npu_backend(compiler_config=config))(x)
    torch.testing.assert_close(result, chain(x))
    return _records.alive()[-1][0]


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_S05_run_eagerly_runs_the_graph_without_an_executor(mode: str) -> None:
    config = CompilerConfig()
    config.set("mode", mode)
    config.debug.run_eagerly = True
    assert compiled_once(config).executor == "run_eagerly"


def test_S06_in_max_autotune_no_pass_runs_and_the_notices_name_what_was_asked_for() -> None:
    config = CompilerConfig()
    config.debug.run_eagerly = True
    config.experimental_config.frozen_parameter = True
    record = compiled_once(config)
    assert record.passes is None
    assert any(notice.option == "experimental_config.frozen_parameter" for notice in record.settings.notices)


def test_S06_in_reduce_overhead_the_passes_run_and_capture_options_are_reported() -> None:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.debug.run_eagerly = True
    config.debug.aclgraph.clone_input = False
    record = compiled_once(config)
    assert record.passes is not None
    assert record.passes.modified
    assert any(notice.option == "debug.aclgraph.clone_input" for notice in record.settings.notices)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_A40_G03_custom_passes_run_before_and_after_with_graph_inputs_and_configuration(mode: str) -> None:
    calls: list[str] = []

    def before(gm: fx.GraphModule, example_inputs: Any, config: CompilerConfig) -> None:
        assert isinstance(config, CompilerConfig)
        assert len(example_inputs) == len(gm.graph.find_nodes(op="placeholder"))
        calls.append("before")

    def after(gm: fx.GraphModule, example_inputs: Any, config: CompilerConfig) -> None:
        calls.append("after")

    config = CompilerConfig()
    config.set("mode", mode)
    config.post_grad_custom_pre_pass = before
    config.post_grad_custom_post_pass = after
    compiled_once(config)
    assert calls == ["before", "after"]
