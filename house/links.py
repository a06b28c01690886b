"""Refuses links between documents that lead nowhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from house.faults import told
from house.files import tracked

LINK: Final = re.compile(r"(?<!\!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
OUTSIDE: Final = re.compile(r"^[a-z]+:")
CODE: Final = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
NOT_A_LETTER: Final = re.compile(r"[^\w\- ]")
HEADING: Final = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The names under which the headings of a document can be linked."""
    return {NOT_A_LETTER.sub("", title.lower()).replace(" ", "-") for title in HEADING.findall(text)}


def dead(document: Path, root: Path) -> Iterator[str]:
    """The links of one document that lead nowhere."""
    for match in LINK.finditer(CODE.sub("", document.read_text())):
        target = match["target"]
        if OUTSIDE.match(target):
            continue
        name, _, anchor = target.partition("#")
        file = (document.parent / name).resolve() if name else document
        shown = f"{document.relative_to(root)}: link to {target}"
        if not file.exists():
            yield f"{shown}: there is no such file"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            yield f"{shown}: there is no such heading"


def main(root: Path) -> int:
    documents = [path for path in tracked(root) if path.suffix == ".md" and path.exists()]
    return told(fault for document in documents for fault in dead(document, root))


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
