from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from air_sim.tools import op_compiler

pytestmark = pytest.mark.npu
Program = Callable[..., subprocess.CompletedProcess[str]]


def dump(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        call = {"op": "Add", "inputs": [{"dtype": "float32", "shape": [number]}], "outputs": [], "attrs": []}
        (folder / f"Add_{number}.json").write_text(json.dumps(call))
    return folder


def compile_dump(tmp_path: Path, count: int, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [
        "-p",
        str(dump(tmp_path / "dump", count)),
        "-v",
        "Ascend910B1",
        "-j",
        "2",
        "-o",
        str(tmp_path / "out"),
        "-l",
        "error",
    ]
    return subprocess.run(
        [sys.executable, op_compiler.__file__, *words, "-f", "true", "--enable_super_kernel"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_a_dump_becomes_an_installer_that_installs_and_uninstalls(tmp_path: Path) -> None:
    done = compile_dump(tmp_path, 3)
    assert done.returncode == 0, done.stderr
    (installer,) = (tmp_path / "out").glob("*.run")
    subprocess.run([str(installer), f"--install-path={tmp_path / 'opp'}", "-q"], check=True)
    place = tmp_path / "opp" / "static_kernel" / "ai_core" / installer.stem
    kernels = sorted((place / "kernels").glob("*.json"))
    assert [json.loads(k.read_text())["inputs"][0]["shape"] for k in kernels] == [[0], [1], [2]]
    subprocess.run([str(place / "uninstall.sh")], check=True)
    assert not place.exists()


def test_an_arranged_failure_half_way_leaves_no_installer(tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = compile_dump(tmp_path, 3, AIR_SIM_OP_COMPILER_FAIL="2", AIR_SIM_OP_COMPILER_LOG=str(log))
    assert done.returncode == 1
    assert "after 2 of 3 operators" in done.stderr
    assert not (tmp_path / "out").exists()
    assert [json.loads(line)["status"] for line in log.read_text().splitlines()] == [1]


def test_an_installer_can_be_slow_and_fail_half_way(tmp_path: Path) -> None:
    assert compile_dump(tmp_path, 3).returncode == 0
    (installer,) = (tmp_path / "out").glob("*.run")
    environment = os.environ | {"AIR_SIM_INSTALL_FAIL": "2", "AIR_SIM_INSTALL_DELAY_S": "0.1"}
    command = [str(installer), f"--install-path={tmp_path / 'opp'}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "after 2 of 3 kernels" in done.stderr
    assert len(list((tmp_path / "opp").glob("static_kernel/ai_core/*/kernels/*.json"))) == 2


def test_a_broken_dump_is_named(tmp_path: Path) -> None:
    folder = dump(tmp_path / "other", 1)
    (folder / "bad.json").write_text("{")
    assert op_compiler.main(["-p", str(folder), "-v", "x", "-o", str(tmp_path / "out")]) == 1


STATIC_KERNELS = """
import glob, os, torch, torchair, air_sim
def kernels():
    return set(glob.glob(os.environ["ASCEND_OPP_PATH"] + "/static_kernel/ai_core/*/kernels/*.json"))
left_by_others = kernels()
from torchair.configs.compiler_config import CompilerConfig
air_sim.activate()
config = CompilerConfig(); config.mode = "reduce-overhead"
config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
backend = torchair.get_npu_backend(compiler_config=config)
f = torch.compile(lambda a, b: torch.relu(a @ b) + 1, backend=backend, dynamic=False)
x, y = torch.randn(4, 4), torch.randn(4, 4)
assert torch.allclose(f(x.npu(), y.npu()).cpu(), torch.relu(x @ y) + 1, atol=1e-5)
print("reselected", air_sim.calls("aclnnReselectStaticKernel"))
print("installed", len(kernels() - left_by_others))
"""


def test_torchair_compiles_and_installs_static_kernels_end_to_end(program: Program, tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = program(STATIC_KERNELS, op_compiler_log=log)
    assert "reselected 1" in done.stdout, done.stdout + done.stderr[-2000:]
    assert "installed 3" in done.stdout
    assert [json.loads(line)["operators"] for line in log.read_text().splitlines()] == [3]


@pytest.mark.slow
def test_torchair_goes_on_without_static_kernels_when_the_compiler_fails(
    program: Program, tmp_path: Path
) -> None:
    done = program(STATIC_KERNELS, op_compiler_fail=1)
    assert "installed 0" in done.stdout, done.stdout + done.stderr[-2000:]
    assert "execute op_compiler error" in done.stderr
