"""How checks end: a line for each fault, and generated pages that are written or found out of date."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path


def told(faults: Iterable[str]) -> int:
    """Prints the faults, a line each; 1 where there is one."""
    found = list(faults)
    sys.stdout.writelines(f"{fault}\n" for fault in found)
    return 1 if found else 0


def written(path: Path, text: str, shown: Path, command: str, *, check: bool) -> list[str]:
    """Writes a generated page; with `check` writes nothing, and says where the page is out of date."""
    if check:
        same = path.exists() and path.read_text() == text
        return [] if same else [f"{shown} is out of date; write it with `python -m {command}`"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return []


def cell(text: str) -> str:
    """A text in a table of Markdown."""
    return text.replace("|", "\\|")
