"""`TORCH_COMPILE_DEBUG=1`, `TORCH_TRACE` and `TORCH_LOGS`: what one process with all three leaves behind."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAM = """
import torch


def model(x, w):
    return torch.relu(x @ w + 1).sum(-1)


x, w = torch.randn(4, 4), torch.randn(4, 4)
for mode in ("reduce-overhead", "max-autotune"):
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(model, backend="air", mode=mode)(x, w)
torch._dynamo.reset()
torch.compile(model, backend="air", mode="reduce-overhead")(x, w.requires_grad_()).sum().backward()
"""


@dataclass(frozen=True)
class Left:
    """What the process left: its log, torch's trace, the folder `air`."""

    log: str
    trace: Path
    air: Path


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("debug")
    script = folder / "program.py"
    script.write_text(PROGRAM)
    told = {
        "TORCH_COMPILE_DEBUG": "1",
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
        "TORCH_TRACE": str(folder / "trace"),
        "TORCH_LOGS": "+air_backend,+air_aclgraph",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, **told},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    (run,) = folder.rglob("run_*/air")
    (trace,) = (folder / "trace").iterdir()
    return Left(done.stderr, trace, run)


def test_A53_G08_every_model_has_a_folder_with_dynamos_graph(left: Left) -> None:
    models = sorted(left.air.glob("model__*"))
    assert [model.name for model in models] == ["model__0", "model__1", "model__2"]
    for model in models:
        assert "x @ w + 1" in (model / "dynamo_out_graph.txt").read_text()
    roles = [sorted(path.name for path in model.iterdir() if path.is_dir()) for model in models]
    assert roles == [["inference"], ["inference"], ["backward", "forward"]]


def test_A53_the_captured_graph_is_there_at_every_stage_with_what_runs(left: Left) -> None:
    folder = left.air / "model__0" / "inference"
    names = sorted(file.name for file in folder.iterdir())
    assert names[0] == "000_aot_graph.txt"
    assert any(name.endswith("_after_reinplace_inplaceable.txt") for name in names)
    assert {"explain.json", "output_code.py", "repro.py", "settings.txt"} <= set(names)
    ast.parse((folder / "output_code.py").read_text())
    report = json.loads((folder / "explain.json").read_text())
    assert report["executor"] == "reduce-overhead"
    assert "mode" in (folder / "settings.txt").read_text()


def test_G08_max_autotune_has_the_ascend_ir_graph_before_and_after_its_passes(left: Left) -> None:
    folder = left.air / "model__1" / "inference"
    for stage in ("original", "optimized"):
        for form in ("txt", "pbtxt", "py"):
            (file,) = folder.glob(f"*_ge_{stage}.{form}")
            assert "Relu" in file.read_text()


def test_A53_the_script_compiles_and_runs_the_graph_alone(left: Left) -> None:
    script = left.air / "model__0" / "inference" / "repro.py"
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCH_LOGS": "air_backend"},
        cwd=script.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "by reduce-overhead" in done.stderr  # the options of the compilation are in the script


def test_A53_the_log_of_all_packages_is_in_the_folder(left: Left) -> None:
    text = (left.air / "debug.log").read_text()
    assert "air_backend._compile" in text
    assert "DEBUG" in text


def test_G51_TORCH_LOGS_takes_the_names_of_the_packages(left: Left) -> None:
    assert "air_backend._compile" in left.log or "graph_0: inference" in left.log
    assert "captured: " in left.log  # air_aclgraph
    assert "graph_1: inference" in left.log


def test_the_raw_trace_has_graphs_ascend_ir_and_reports(left: Left) -> None:
    names = set()
    for line in left.trace.read_text().splitlines():
        _, brace, rest = line.partition("] {")
        if brace and '"artifact"' in rest:
            names.add(json.loads("{" + rest)["artifact"]["name"])
    assert {"air_graph_0_before", "air_graph_0_after", "air_graph_0_report"} <= names
    assert {"air_graph_1_ge_original", "air_graph_1_ge_optimized"} <= names


@pytest.mark.skipif(shutil.which("tlparse") is None, reason="tlparse is not installed")
def test_tlparse_shows_our_files(left: Left, tmp_path: Path) -> None:
    out = tmp_path / "out"
    subprocess.run(
        ["tlparse", str(left.trace), "-o", str(out), "--no-browser"], check=True, capture_output=True
    )
    page = (out / "index.html").read_text()
    for name in ("air_graph_0_before", "air_graph_0_after", "air_graph_0_report", "air_graph_1_ge_optimized"):
        assert name in page
        assert any(name in file.name for file in out.rglob("*"))
