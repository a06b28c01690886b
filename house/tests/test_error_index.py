"""The error index has every error class with what to do, and notices one that does not say it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from house import error_index

SOURCE = '''
class Broken(Exception):
    """It broke, | or it was
    broken.

    Mend it.

    Args:
        what: not part of the advice.
    """


class Silent(Exception):
    """It broke."""


class _Inside(Exception):
    pass
'''


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "packages/some/src/some_errors_package"
    folder.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "errors.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(folder.parent))
    for name in ("some_errors_package", "some_errors_package.errors"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_each_error_has_a_row(root: Path) -> None:
    error_index.main([], root)
    text = (root / "docs/errors.md").read_text()
    assert "## `some_errors_package.errors`" in text
    assert "| `Broken` | It broke, \\| or it was broken. | Mend it. |" in text
    assert "_Inside" not in text


def test_an_error_that_gives_no_advice_fails(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_index.main([], root) == 1
    assert "errors.Silent: the docstring needs a second paragraph" in capsys.readouterr().out


def test_a_page_out_of_date_fails_the_check(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_index.main(["--check"], root) == 1
    assert "out of date" in capsys.readouterr().out
