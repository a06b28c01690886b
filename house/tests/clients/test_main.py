"""The whole of it over a small checkout: what is printed, and when it fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from house.clients import __main__ as clients
from house.clients import suites
from house.clients.suites import Module
from house.clients.verdicts import Private

ROOT = Path(__file__).parents[3]
THEIRS = """
import os
import unittest


class T(unittest.TestCase):
    def test_good(self):
        pass

    def test_bad_with_air(self):
        self.assertEqual(os.environ["WHO"], "real")
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "torch_npu/test/dynamo"
    folder.mkdir(parents=True)
    (folder / "test_npu_things.py").write_text(THEIRS)

    def command(module: Module, air: bool, seconds: float, test: str, lines: Path) -> list[str]:
        who = f"WHO={'air' if air else 'real'}"
        return [
            "env",
            who,
            sys.executable,
            "-m",
            "house.clients.runner",
            str(module.path),
            "--write",
            str(lines),
        ]

    monkeypatch.setattr(clients, "command", command)
    monkeypatch.chdir(ROOT)
    return tmp_path / "torch_npu"


def run(checkout: Path, results: Path, *words: str) -> int:
    return clients.main(["--torch-npu", str(checkout), "--results", str(results), *words])


def test_what_only_air_fails_is_named_and_fails_the_session(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(checkout, tmp_path / "results") == 1
    said = capsys.readouterr().out
    assert "torch_npu/test_npu_things: 1 pass, 1 ours" in said
    assert "ours: torch_npu/test_npu_things T.test_bad_with_air: fail: AssertionError" in said
    assert "50.0 % pass" in said


def test_a_listed_failure_with_its_text_does_not(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = {
        ("torch_npu/test_npu_things", "T.test_bad_with_air"): Private("asks who runs it", "'air' != 'real'")
    }
    monkeypatch.setattr(clients, "read_list", lambda: listed)
    assert run(checkout, tmp_path / "results", "--wordy") == 0
    assert (
        "private name: torch_npu/test_npu_things T.test_bad_with_air: asks who runs it"
        in capsys.readouterr().out
    )


def test_a_folder_that_is_no_checkout_is_told(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "elsewhere", tmp_path / "results") == 2
    assert "give the root of a checkout" in capsys.readouterr().out


def test_every_stub_that_a_suite_names_is_a_module_of_ours() -> None:
    for suite in suites.SUITES:
        if suite.stub:
            assert (ROOT / (suite.stub.replace(".", "/") + ".py")).is_file()


def test_tests_of_eager_programs_are_compiled_whole_where_their_checkout_is_given(tmp_path: Path) -> None:
    for name in ("test/test_torch.py", "test/nn/test_pooling.py", "test/other/test_torch.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = list(suites.modules({"torch-tests": tmp_path}))
    assert sorted({module.name for module in found}) == [
        f"whole-{mode}/{name}" for mode in sorted(suites.MODES) for name in ("test_pooling", "test_torch")
    ]
    for module in found:
        assert clients.told(module) == {"PYTORCH_TEST_WITH_AOT_EAGER": "1"}
