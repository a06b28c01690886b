"""The run on an accelerator: what is counted, and that what has no accelerator says so."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import pytest

from house import accelerator
from house.accelerator import Counts, Record, counts, lines

TESTS = {
    "test_plain.py": """
import pytest

def test_passes(): pass
def test_fails(): raise ValueError
@pytest.mark.skip(reason="needs an NPU: only it does that")
def test_skipped(): pass
""",
    "test_library.py": "import no_library_of_this_name\n",
    "test_broken.py": "import air_no_package_of_this_name\n",
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    """The counts of tests that pass, fail, are skipped or cannot be read."""
    folder = tmp_path_factory.mktemp("tests")
    for name, text in TESTS.items():
        (folder / name).write_text(text)
    results = folder / "results.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--continue-on-collection-errors",
        f"--junitxml={results}",
    ]
    subprocess.run(command, cwd=folder, capture_output=True)
    return counts(ElementTree.parse(results).iter("testcase"))


def test_a_library_that_is_not_there_skips_a_module_and_anything_else_is_a_failure(counted: Counts) -> None:
    assert counted.passed == 1
    assert sorted(counted.failed) == ["test_broken", "test_plain::test_fails"]
    assert counted.skipped == 2
    assert counted.reasons == {
        "needs an NPU: only it does that": 1,
        "a module needs no_library_of_this_name, which is not installed": 1,
    }


def test_the_lines_tell_device_versions_and_counts(counted: Counts) -> None:
    told = list(lines(Record("cuda", "a device", "abc", {"torch": "2.11"}, {"air-streams": counted})))
    assert told[:2] == ["a device (cuda); torch 2.11", "air-streams: 1 passed, 2 failed, 2 skipped"]
    assert "  failed: test_plain::test_fails" in told
    assert "  1 skipped: needs an NPU: only it does that" in told


def test_what_packages_declare_is_found_without_installing_them(tmp_path: Path) -> None:
    accelerator.entry_points(tmp_path)
    found = {each.metadata["Name"]: each for each in metadata.distributions(path=[str(tmp_path)])}
    assert {"air-graph", "air-backend"} <= set(found)
    declared = {(each.group, each.name, each.value) for each in found["air-backend"].entry_points}
    assert ("torch_dynamo_backends", "air", "air_backend:air") in declared
    assert ("pytest11", "air", "air_backend.testing.plugin") in declared


def test_a_machine_without_torch_has_no_accelerator_and_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert accelerator.main([]) == accelerator.NO_ACCELERATOR
    assert "no accelerator" in capsys.readouterr().err


def test_a_program_that_is_started_finds_the_sources_and_its_end_is_told(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = "import air_config, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(air_config.__file__); sys.exit(3)"
    assert accelerator.main(["--start", sys.executable, "-c", program, str(told)]) == 3
    assert Path(told.read_text()).is_relative_to(accelerator.ROOT / "packages/air-config/src")
