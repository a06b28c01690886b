"""Marked snippets run in the order of the page, and a failing one is reported with its place."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from house import snippets

PAGE = """# Page

<!-- run -->
```python
x = 20
```

not marked:

```python
raise SystemExit("must not run")
```

<!-- run -->
```python
assert x + {add} == 42
```
"""
GROUNDS = """<!-- run: cpu, sim -->
```python
first = 1
```

<!-- run: sim -->
```python
second = 2
```
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(snippets, "PRELOADED", [])
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_the_snippets_of_a_page_run_one_after_the_other(root: Path) -> None:
    (root / "page.md").write_text(PAGE.format(add=22))
    assert snippets.main(root) == 0


def test_a_failing_snippet_is_reported_with_page_and_line(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "page.md").write_text(PAGE.format(add=1))
    (root / "good.md").write_text(PAGE.format(add=22))
    assert snippets.main(root) == 1
    said = capsys.readouterr().out
    assert 'File "page.md", line 16' in said
    assert "1 passed, 1 failed" in said


def test_only_the_pages_asked_for_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "docs").mkdir()
    (root / "docs/good.md").write_text(PAGE.format(add=22))
    (root / "bad.md").write_text(PAGE.format(add=1))
    assert snippets.main(root, ["docs"]) == 0
    assert "snippets of 1 pages" in capsys.readouterr().out


def test_a_snippet_belongs_to_the_grounds_it_names() -> None:
    assert "second" not in snippets.program(GROUNDS)
    assert {"first = 1", "second = 2"} <= set(snippets.program(GROUNDS, "sim").splitlines())


def test_a_page_that_ends_its_process_fails(root: Path) -> None:
    (root / "page.md").write_text("<!-- run -->\n```python\nimport os\n\nos._exit(0)\n```\n")
    assert snippets.main(root) == 1
