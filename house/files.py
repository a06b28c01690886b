"""Refuses files that are too long, have a name that says nothing, or contain a path of one machine.

ruff checks what is inside a Python file; these rules are about the files themselves, C++ included.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from house.faults import told

LINES_AT_MOST: Final = 500
COUNTED: Final = frozenset({".py", ".cpp", ".h", ".inc", ".proto"})
TEXT: Final = COUNTED | {".md", ".toml", ".sh", ".yaml", ".yml", ".json", ".txt", ".csv", ".html", ""}
NAMELESS: Final = re.compile(r"(?:^|_)(?:utils?|helpers?|managers?|common|misc|impl)$")
MACHINE_PATH: Final = re.compile(r"(?<![\w.$}/:-])/(?:root|home|work|Users|tmp)/(?!path\b)[A-Za-z0-9_.]+")


def tracked(root: Path) -> list[Path]:
    """The files that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return [root / name for name in sorted(filter(None, listed.split("\0")))]


def faults(path: Path, shown: Path) -> Iterator[str]:
    """What is wrong with one file, each with the place and the remedy."""
    if path.suffix in {".py", ".cpp", ".h"} and NAMELESS.search(path.stem):
        yield f"{shown}: the name says nothing about the contents; name the one idea the file holds"
    if path.suffix not in TEXT or not path.is_file():
        return
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError:
        return
    if path.suffix in COUNTED and len(lines) > LINES_AT_MOST:
        yield f"{shown}: {len(lines)} lines, {LINES_AT_MOST} are allowed; split it by idea"
    for number, line in enumerate(lines, 1):
        if found := MACHINE_PATH.search(line):
            yield f"{shown}:{number}: {found.group()} is a path of one machine; make it relative or an argument"


def main(root: Path) -> int:
    return told(fault for path in tracked(root) for fault in faults(path, path.relative_to(root)))


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
