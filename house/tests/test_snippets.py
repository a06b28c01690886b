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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_the_snippets_of_a_page_run_one_after_the_other(root: Path) -> None:
    (root / "page.md").write_text(PAGE.format(add=22))
    assert snippets.main(root) == 0


def test_a_failing_snippet_is_reported_with_page_and_line(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "page.md").write_text(PAGE.format(add=1))
    assert snippets.main(root) == 1
    assert 'File "page.md", line 16' in capsys.readouterr().out
