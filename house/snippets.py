"""Runs the Python snippets of the documents, so that they stay true.

    python -m house.snippets            run every snippet that a document marks, each page in one process

A snippet runs when the line before its fence is `<!-- run -->`. The snippets of a page run one after the other in one
process, as a reader would type them; a failure is reported with the page and the line.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from house.files import tracked

SNIPPET: Final = re.compile(r"^<!-- run -->\n```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)
TIMEOUT_S: Final = 600


def program(text: str) -> str:
    """The marked snippets of a page, each on the line it has in the page, so that a traceback tells the place."""
    lines = [""] * (text.count("\n") + 1)
    for match in SNIPPET.finditer(text):
        first = text.count("\n", 0, match.start("code"))
        for offset, line in enumerate(match["code"].splitlines()):
            lines[first + offset] = line
    return "\n".join(lines) + "\n" if any(lines) else ""


def run(page: Path, shown: Path) -> str | None:
    """What went wrong with the snippets of one page, or nothing."""
    code = program(page.read_text())
    if not code:
        return None
    runner = f"exec(compile({code!r}, {str(shown)!r}, 'exec'), {{'__name__': '__main__'}})"
    ran = subprocess.run([sys.executable, "-c", runner], capture_output=True, text=True, timeout=TIMEOUT_S)
    return None if ran.returncode == 0 else f"{shown}:\n{ran.stdout}{ran.stderr}"


def main(root: Path) -> int:
    pages = [path for path in tracked(root) if path.suffix == ".md" and path.exists()]
    marked = [page for page in pages if program(page.read_text())]
    faults = [fault for page in marked if (fault := run(page, page.relative_to(root)))]
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    sys.stdout.write(
        f"snippets of {len(marked)} pages: {len(marked) - len(faults)} passed, {len(faults)} failed\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
