"""The static-kernel programs of the documents, complete and unchanged, and the tree of products they describe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from static_kernel.sandbox import Sandbox

pytestmark = pytest.mark.npu("static kernels are made by CANN's compiler")

PROGRAMS = Path(__file__).parents[1] / "programs"
RUN = (  # one run's part of the document's tree: kind, and the name as the document writes it
    ("folder", "${pid_1}"),
    ("folder", "${pid_1}_debug"),
    ("folder", "${pid_1}_opcompile"),
    ("file", "static_kernel_${datetime}.run"),
)
DESCRIPTION = r"[A-Za-z0-9]+_float32_ND_[\w]+\.json"


def ran(sandbox: Sandbox, name: str, **switches: object) -> str:
    words = ("-m", "air_backend.cli", "run", str(PROGRAMS / f"{name}.py"), str(sandbox.build))
    done = sandbox.run(*words, **switches)
    assert done.stdout.rstrip().endswith("equal air_backend")
    assert "StaticKernelWarning" not in done.stderr
    return done.stderr


def check_run(folder: Path) -> None:
    """Every entry of one run, and nothing else."""
    match = re.fullmatch(r"(\d+)_(\d+)_outputs", folder.name)  # ${timestamp_1}_${pid_1}_outputs
    assert match is not None
    values = {r"\$\{pid_1\}": match[2], r"\$\{datetime\}": r"[\d_]+"}
    left = {entry.name: entry for entry in folder.iterdir()}
    for kind, written in RUN:
        pattern = re.escape(written).replace("\\_", "_")
        for word, value in values.items():
            pattern = pattern.replace(word.replace("\\_", "_"), value)
        (name,) = (name for name in left if re.fullmatch(pattern, name))
        entry = left.pop(name)
        assert entry.is_dir() == (kind == "folder")
        if entry.is_dir():
            files = list(entry.iterdir())
            assert files
            assert all(re.fullmatch(DESCRIPTION, file.name) for file in files)
    assert left == {}


def test_S07_S08_S09_S10_N17_both_programs_run_and_leave_the_products_of_the_document(
    sandbox: Sandbox,
) -> None:
    said = ran(sandbox, "static_kernel")
    assert "static kernels: compiling 3 operators" in said
    (root,) = sandbox.build.glob("*_outputs")
    assert root.name == "aclnn_static_shape_kernel_outputs"
    (first,) = root.iterdir()
    check_run(first)
    assert "compiling" not in ran(sandbox, "run_eagerly_static_kernel")
    assert len(sandbox.compilations) == 1, "later runs compile nothing"
    assert sandbox.compilations[0]["operators"] == 3
    assert len(list(root.iterdir())) == 2
    for run in root.iterdir():
        check_run(run)
    assert sandbox.installed == [], "each process has uninstalled what it used"


@pytest.mark.slow
def test_A48_from_cann_9_1_on_the_shared_library_is_not_touched(sandbox: Sandbox) -> None:
    before = set(sandbox.library.rglob("*"))
    ran(sandbox, "static_kernel", cann="9.1.0", install_delay_s=0.1)
    assert len(sandbox.compilations) == 1
    assert sandbox.compilations[0]["arguments"][-2:] == ["-f", "true"]
    assert set(sandbox.library.rglob("*")) == before
