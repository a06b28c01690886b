"""The example in the README runs and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.skipif(not README.exists(), reason="the tests run outside the package's folder")
def test_the_example_runs_and_prints_its_comments(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    shown = "".join(line.lstrip("#").strip() + " " for line in code.splitlines() if line.startswith("# "))
    assert " ".join(shown.split()) == " ".join(capsys.readouterr().out.split())
    assert names["settings"].debug.aclgraph.clone_input is False
