"""One module, each test in a process of its own: what each kind of end is told as."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
THEIRS = """
import os
import time
import unittest

STATE = []


class Kinds(unittest.TestCase):
    def test_dies(self):
        print("last words", flush=True)
        os.kill(os.getpid(), 11)

    def test_fails(self):
        self.assertEqual(1, 2)

    def test_hangs(self):
        time.sleep(60)

    @unittest.skip("not here")
    def test_is_skipped(self):
        raise AssertionError

    def test_one_leaves_something(self):
        STATE.append(1)
        open("left", "w").close()

    def test_other_finds_nothing(self):
        self.assertEqual((STATE, os.listdir()), ([], ["said.txt"]))

    def test_leaves_by_itself(self):
        raise SystemExit(3)
"""


def told(module: Path, *words: str) -> dict[str, tuple[str, str]]:
    lines = module.with_suffix(".jsonl")
    command = [sys.executable, "-m", "house.clients.runner", str(module), "--seconds", "2"]
    subprocess.run([*command, "--write", str(lines), *words], cwd=ROOT, check=True, timeout=60)
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    return {row["test"]: (row["outcome"], row["why"]) for row in rows}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    module = tmp_path_factory.mktemp("theirs") / "kinds_test.py"
    module.write_text(THEIRS)
    return told(module)


@pytest.mark.parametrize(
    ("test", "outcome", "said"),
    [
        ("dies", "died", "last words"),
        ("fails", "fail", "1 != 2"),
        ("hangs", "late", "2 s"),
        ("is_skipped", "skip", "not here"),
        ("one_leaves_something", "pass", ""),
        ("other_finds_nothing", "pass", ""),
        ("leaves_by_itself", "fail", "SystemExit: 3"),
    ],
)
def test_each_end_of_a_test_is_told_and_the_next_one_runs(
    rows: dict[str, tuple[str, str]], test: str, outcome: str, said: str
) -> None:
    found, why = rows[f"Kinds.test_{test}"]
    assert (found, said in why) == (outcome, True), why


def test_a_module_that_cannot_be_imported_is_one_line_with_the_reason(tmp_path: Path) -> None:
    module = tmp_path / "broken_test.py"
    module.write_text("import no_such_thing_at_all\n")
    rows = told(module)
    assert list(rows) == ["(import)"]
    assert "no_such_thing_at_all" in rows["(import)"][1]


def test_only_the_tests_that_are_asked_for_run(tmp_path: Path) -> None:
    module = tmp_path / "kinds_test.py"
    module.write_text(THEIRS)
    assert list(told(module, "--test", "fails")) == ["Kinds.test_fails"]
