"""What the guide tells a newcomer to type installs what it says, and runs."""

from __future__ import annotations

import re
from pathlib import Path

from house.packages import closure
from house.snippets import program

ROOT = Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"^pip install \./packages/air-\{([\w,]+)\}$", re.MULTILINE)


def test_the_command_of_the_install_page_names_every_package_that_the_backend_needs() -> None:
    for page in ("install.md", "install.zh.md"):
        (names,) = COMMAND.findall((ROOT / "docs" / page).read_text())
        assert {f"air-{name}" for name in names.split(",")} == set(closure("air-backend"))


def test_single_packages_of_the_install_page_are_named_with_all_that_they_need() -> None:
    rows = re.findall(r"^\|[^|]+\| (`air-[^|]+) \|", (ROOT / "docs/install.md").read_text(), re.MULTILINE)
    assert len(rows) == 3
    for row in rows:
        named = re.findall(r"`(air-\w+)`", row)
        assert set(named) == set(closure(named[0]))


def test_the_quick_start_has_a_program_for_the_path_from_wheels() -> None:
    text = program((ROOT / "docs/quick-start.md").read_text())
    assert "torch.compile(" in text
    assert "explain(" in text
