"""The API reference has every public name, as it is written in the source, and notices what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from house import api

SOURCE = '''"""A package.

    shown.double(2)
"""

from __future__ import annotations

from shown._inside import Box, double, silent

LIMIT = 3
"""How much fits."""

__all__ = ["LIMIT", "Box", "double", "silent"]
'''
INSIDE = '''"""What the package offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Box:
    """A box."""

    width: int

    def open(self, *, how: str = "a, b") -> None:
        """Opens it."""


def double(value: int | Sequence[int], a_name_that_is_long: str = "", another_name_that_is_long: str = "") -> int:
    """Twice the value.

    Args:
        value: what is doubled,
            and nothing else.

    Example:

        double(2)
    """
    return 2


def silent() -> None:
    pass
'''


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown/__init__.py").write_text(SOURCE)
    (tmp_path / "shown/_inside.py").write_text(INSIDE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(api, "PACKAGES", ("shown",))
    for name in [name for name in sys.modules if name.partition(".")[0] == "shown"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_the_page_has_signatures_docstrings_and_notes(root: Path) -> None:
    api.main([], root)
    text = (root / "docs/reference/api/shown.md").read_text()
    assert "```text\nshown.double(2)\n```" in text
    assert "class Box(width: int) -> None" in text
    assert "- `open(self, *, how: str = 'a, b') -> None`: Opens it." in text
    assert "double(\n    value: int | Sequence[int],\n    a_name_that_is_long: str = ''," in text
    assert "- value: what is doubled, and nothing else." in text
    assert "### `shown.LIMIT`\n\nHow much fits." in text
    assert text.count("### ") == 4


@pytest.mark.parametrize("default", ["os.environ", "{}"])
def test_a_default_that_is_not_the_same_on_every_machine_fails(
    default: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = root / "shown/_inside.py"
    changed = INSIDE.replace("def silent()", f"def silent(where: object = {default})")
    inside.write_text(changed.replace("from collections", "import os\nfrom collections", 1))
    assert api.main([], root) == 1
    assert "shown.silent(where): a default that no page can show" in capsys.readouterr().out


def test_a_page_out_of_date_and_a_name_without_a_docstring_fail(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.main(["--check"], root) == 1
    said = capsys.readouterr().out
    assert "docs/reference/api/shown.md is out of date" in said
    api.main([], root)
    monkeypatch.setattr(api, "OURS", "shown")
    capsys.readouterr()
    assert api.main(["--check"], root) == 1
    assert capsys.readouterr().out == "shown.silent: a public name without a docstring\n"
