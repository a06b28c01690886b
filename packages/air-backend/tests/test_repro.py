"""torch's minifier on this backend: what a wrong pass spoils is cut down to the graph that shows it."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.debug_utils import AccuracyError, same_two_models
from torch._dynamo.exc import BackendCompilerFailed

from air_backend import CompilerConfig, _minifier, get_npu_backend
from air_backend._minifier import script

WRONG = """
import torch


def tanh_becomes_sin(gm, example_inputs, config):
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default):
        node.target = torch.ops.aten.sin.default


def tanh_fails(gm, example_inputs, config):
    if gm.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default):
        raise ValueError("there is a tanh")
"""
PROGRAM = """
import sys

import torch
import wrong
from air_backend import CompilerConfig, get_npu_backend


def model(x, w):
    y = torch.relu(x @ w + 1)
    y = torch.tanh(y) * 2
    return (torch.sigmoid(y) - 1).sum(-1)


config = CompilerConfig()
config.mode = "reduce-overhead"
config.post_grad_custom_post_pass = getattr(wrong, sys.argv[1])
with torch.no_grad():
    torch.compile(model, backend=get_npu_backend(compiler_config=config))(torch.randn(4, 4), torch.randn(4, 4))
"""


def python(folder: Path, *words: str, **told: str) -> subprocess.CompletedProcess[str]:
    own = {
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "PYTHONPATH": str(folder),
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
    }
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **own, **told},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def minified(folder: Path, function: str, after: str, level: int) -> str:
    """Runs the program, then the launcher that torch wrote; gives the smallest script."""
    (folder / "wrong.py").write_text(WRONG)
    (folder / "program.py").write_text(PROGRAM)
    told = {"TORCHDYNAMO_REPRO_AFTER": after, "TORCHDYNAMO_REPRO_LEVEL": str(level)}
    failed = python(folder, "program.py", function, **told)
    assert failed.returncode != 0
    (launcher,) = folder.rglob("minifier_launcher.py")
    done = python(folder, str(launcher), "minify", "--no-isolate")
    made = folder / "repro.py"
    assert made.is_file(), done.stdout + done.stderr
    return made.read_text()


def operators(text: str) -> list[str]:
    return re.findall(r"torch\.ops\.aten\.(\w+)", text)


@pytest.mark.slow
def test_an_accuracy_fault_of_a_pass_is_cut_down_to_its_operator(tmp_path: Path) -> None:
    text = minified(tmp_path, "tanh_becomes_sin", "aot", 4)
    assert operators(text) == ["tanh"]
    assert "wrong:tanh_becomes_sin" in text  # the script compiles with the same options
    again = python(tmp_path, "repro.py", "run")
    assert again.returncode != 0
    assert "AccuracyError" in again.stderr  # the small script shows the fault


@pytest.mark.slow
@pytest.mark.parametrize(("after", "level"), [("aot", 2), ("dynamo", 4), ("dynamo", 2)])
def test_the_other_ways_of_the_minifier_end_in_a_small_graph_as_well(
    tmp_path: Path, after: str, level: int
) -> None:
    text = minified(tmp_path, "tanh_fails" if level == 2 else "tanh_becomes_sin", after, level)
    assert "tanh" in text
    assert "sigmoid" not in text
    again = python(tmp_path, "repro.py", "run")
    assert again.returncode != 0
    assert ("there is a tanh" if level == 2 else "AccuracyError") in again.stderr


@pytest.mark.parametrize(
    ("after", "shown"), [("aot", "torch.ops.aten.tanh.default"), ("dynamo", "torch.tanh")]
)
def test_a_wrong_pass_stops_the_call_and_leaves_a_launcher_that_compiles_with_air(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str, shown: str
) -> None:
    (tmp_path / "wrong_here.py").write_text(WRONG)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    wrong = importlib.import_module("wrong_here")
    options = {"post_grad_custom_post_pass": wrong.tanh_becomes_sin}
    config = CompilerConfig.from_options(options, mode="reduce-overhead")
    compiled = torch.compile(lambda x: torch.tanh(x + 1), backend=get_npu_backend(compiler_config=config))
    asked = {"repro_after": after, "repro_level": 4, "debug_dir_root": str(tmp_path)}
    stopped = pytest.raises((AccuracyError, BackendCompilerFailed), match="Bad accuracy detected")
    with torch._dynamo.config.patch(asked), torch.no_grad(), stopped:
        compiled(torch.randn(4))
    (launcher,) = tmp_path.rglob("minifier_launcher.py")
    text = launcher.read_text()
    assert "air_backend.repro.install(" in text
    assert "wrong_here:tanh_becomes_sin" in text
    assert shown in text  # the graph as it was before the pass


def test_a_script_s_graph_of_several_arguments_is_compared_with_the_module_it_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong_there.py").write_text(WRONG)
    monkeypatch.syspath_prepend(tmp_path)
    wrong = importlib.import_module("wrong_there")
    monkeypatch.setattr(_minifier, "is_watching", lambda: True)  # as in a script that the minifier wrote
    gm = torch.fx.symbolic_trace(lambda x, w: (torch.tanh(x + w),))
    inputs = [torch.randn(4), torch.randn(4)]
    for function, is_same in ((wrong.tanh_becomes_sin, False), (None, True)):
        options = {} if function is None else {"post_grad_custom_post_pass": function}
        config = CompilerConfig.from_options(options, mode="reduce-overhead")
        compiled: Any = get_npu_backend(compiler_config=config)(gm, inputs)
        assert same_two_models(gm, compiled, inputs) is is_same


def test_options_that_no_other_process_can_import_are_left_out_of_a_script(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def local(gm: Any, example_inputs: Any, config: Any) -> None:
        return None

    config = CompilerConfig.from_options({"post_grad_custom_post_pass": local}, mode="reduce-overhead")
    gm = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.relu.default(x),))
    text = script(gm, [torch.randn(2)], config)
    assert '"$preset": "reduce-overhead"' in text
    assert "post_grad_custom_post_pass" not in text
    assert "leaves post_grad_custom_post_pass out" in caplog.text
