"""The programs of the documents, complete and unchanged, on an NPU; and on the CPU without their `.npu()`.

One is started by `air run --sim`, the others run in this process, as `air run` runs them.

Each compares its result with eager at its end and prints which torchair it used.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch._dynamo.exc import BackendCompilerFailed

from air_backend import _alias, _records

PROGRAMS = Path(__file__).parent / "programs"
DEVICE = (  # what a document's program says about the device, and what it says on a machine that has none
    ("import torch_npu, torchair", "import torchair"),
    ("import torch_npu\n", ""),
    (".npu()", ""),
    ('device="npu"', 'device="cpu"'),
    ("1000, 1000", "100, 100"),  # products of half precision are slow there
)


def ran(name: str) -> str:
    """What a program writes to stderr when a user starts it on a machine without an NPU."""
    command = [sys.executable, "-m", "air_backend.cli", "run", "--sim", str(PROGRAMS / f"{name}.py")]
    kept = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH" and not k.startswith("AIR_SIM_")}
    kept.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=kept)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.rstrip().endswith("equal air_backend")
    return result.stderr


@pytest.mark.npu("the programs are written for NPUs")
def test_S19_S20_S21_S22_the_program_of_the_multi_stream_document() -> None:
    assert "StreamRaceWarning" not in ran("multi_stream")


@pytest.fixture
def aliased() -> Iterator[None]:
    _alias.install_as_torchair()
    yield
    _alias.uninstall()


def here(program: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(program), str(folder)])
    runpy.run_path(str(program), run_name="__main__")


def told(capsys: pytest.CaptureFixture[str]) -> None:
    assert capsys.readouterr().out.rstrip().endswith("equal air_backend")


@pytest.mark.npu("the programs are written for NPUs")
@pytest.mark.parametrize("name", ["run_eagerly_max_autotune", "run_eagerly_reduce_overhead"])
@pytest.mark.usefixtures("aliased")
def test_S05_S06_a_program_of_the_run_eagerly_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    here(PROGRAMS / f"{name}.py", tmp_path, monkeypatch)
    told(capsys)


@pytest.mark.npu("the programs are written for NPUs")
@pytest.mark.usefixtures("aliased")
def test_S14_S15_the_program_of_the_fx_pass_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here(PROGRAMS / "fx_passes.py", tmp_path, monkeypatch)
    told(capsys)


def on_the_cpu(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a program without its device."""
    text = (PROGRAMS / f"{name}.py").read_text()
    for npu, cpu in DEVICE:
        text = text.replace(npu, cpu)
    assert "npu()" not in text
    program = folder / f"{name}.py"
    program.write_text(text)
    here(program, folder, monkeypatch)


@pytest.mark.parametrize(
    ("name", "executor"),
    [
        ("run_eagerly_max_autotune", "run_eagerly"),
        ("run_eagerly_reduce_overhead", "run_eagerly"),
        ("fx_passes", "reduce-overhead"),
        ("multi_stream", "reduce-overhead"),
    ],
)
@pytest.mark.usefixtures("aliased")
def test_N01_a_program_of_the_documents_runs_on_the_cpu_without_its_device(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    executor: str,
) -> None:
    on_the_cpu(tmp_path, name, monkeypatch)
    told(capsys)
    assert {record.executor for record, _ in _records.alive()} == {executor}


@pytest.mark.parametrize("name", ["static_kernel", "run_eagerly_static_kernel"])
@pytest.mark.usefixtures("aliased")
def test_S08_static_kernels_are_refused_on_the_cpu_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with pytest.raises(
        BackendCompilerFailed, match="the tools of CANN compile static kernels, for NPUs only"
    ):
        on_the_cpu(tmp_path, name, monkeypatch)
