"""`debug.graph_dump`: the FX graph of a captured graph, the Ascend IR graph in max-autotune."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

from air_backend import CompilerConfig, get_npu_backend


def model(x: Tensor) -> Tensor:
    return torch.relu(x + 1).sum(-1)


def dumped(path: Path, mode: str, form: str) -> dict[str, str]:
    """The text of each stage."""
    config = CompilerConfig()
    config.set("mode", mode)
    config.set("debug.graph_dump.type", form)
    config.debug.graph_dump.path = str(path)
    with torch.no_grad():
        torch.compile(model, backend=get_npu_backend(compiler_config=config))(torch.randn(4, 4))
    files = sorted(path.glob(f"*.{form}"))
    assert all("_rank_0_pid_" in file.name for file in files)
    return {file.name.split("_")[1]: file.read_text() for file in files}


def test_A56_the_captured_graph_is_written_before_and_after_the_passes(tmp_path: Path) -> None:
    texts = dumped(tmp_path / "made" / "for it", "reduce-overhead", "py")
    assert set(texts) == {"original", "optimized"}
    assert "aten.relu.default" in texts["original"]
    assert "aten.relu_.default" in texts["optimized"]  # a pass has acted
    for text in texts.values():
        ast.parse(text)
        assert "return torch.relu(x + 1).sum(-1)" in text  # the user's line
        assert "f32[4, 4]" in text


@pytest.mark.parametrize("form", ["txt", "pbtxt", "py", "svg", "html"])
def test_A56_ascend_ir_is_written_in_every_form(tmp_path: Path, form: str) -> None:
    texts = dumped(tmp_path, "max-autotune", form)
    assert set(texts) == {"original", "optimized"}
    assert all("ReduceSum" in text and "Relu" in text for text in texts.values())
    if form == "py":
        (file,) = tmp_path.glob("*optimized*.py")
        graph = runpy.run_path(str(file))["graph"]
        assert [node.op_type for node in graph if node.op_type in ("Relu", "ReduceSum")] == [
            "Relu",
            "ReduceSum",
        ]


@pytest.mark.parametrize("form", ["txt", "pbtxt", "svg", "html"])
def test_a_form_that_a_captured_graph_does_not_have_is_refused_by_name(tmp_path: Path, form: str) -> None:
    with pytest.raises(
        BackendCompilerFailed, match=r'debug\.graph_dump\.type.*aclgraph writes graphs as "py" only'
    ):
        dumped(tmp_path, "reduce-overhead", form)
