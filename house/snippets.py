"""Runs the Python snippets of the documents, so that they stay true.

    python -m house.snippets                 run what is marked for plain CPU tensors, each page in one process
    python -m house.snippets --ground sim    run what is marked for air-sim; inside `air-sim run`
    python -m house.snippets docs/cases      only the pages at or below these paths

A snippet runs when the line before its fence is `<!-- run -->`, on air-sim when it is `<!-- run: sim -->`, and on both
when it is `<!-- run: cpu, sim -->`. The snippets of a page run one after the other in one process, as a reader would
type them, in an empty folder; a failure is reported with the page and the line. A translation with the code of its
English page is not run again. torch is imported once, on air-sim with torch_npu, and every page gets a fork of that
process (`house.forks`), in which no device was used yet.
"""

from __future__ import annotations

import argparse
import linecache
import os
import re
import signal
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from house import forks
from house.files import tracked
from house.translations import SUFFIX, code_of, source_of

SNIPPET: Final = re.compile(
    r"^<!-- run(?:: (?P<grounds>[\w, ]+))? -->\n```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL
)
TIMEOUT_S: Final = 300
PRELOADED: Final = [*forks.TORCH, "air_backend._backend", "air_backend._explain", "air_geir._compile"]


def grounds_of(match: re.Match[str]) -> set[str]:
    """Where a marked snippet runs."""
    return set((match["grounds"] or "cpu").replace(" ", "").split(","))


def program(text: str, ground: str = "cpu") -> str:
    """The marked snippets of a page, each on the line it has in the page, so that a traceback tells the place."""
    lines = [""] * (text.count("\n") + 1)
    for match in SNIPPET.finditer(text):
        if ground not in grounds_of(match):
            continue
        first = text.count("\n", 0, match.start("code"))
        for offset, line in enumerate(match["code"].splitlines()):
            lines[first + offset] = line
    return "\n".join(lines) + "\n" if any(lines) else ""


def same_code(page: Path) -> bool:
    """Whether this is a translation whose code is that of the page it translates: then it runs there."""
    source = source_of(page)
    return (
        page.name.endswith(SUFFIX)
        and source.exists()
        and code_of(source.read_text()) == code_of(page.read_text())
    )


def run(page: str, shown: str, ground: str) -> Callable[[], None]:
    """What runs the snippets of one page, in a process of its own and an empty folder."""

    def snippets() -> None:
        code = program(Path(page).read_text(), ground)
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(TIMEOUT_S)
        linecache.cache[shown] = (len(code), None, code.splitlines(keepends=True), shown)
        page_module = sys.modules["__main__"] = types.ModuleType("__main__")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                exec(compile(code, shown, "exec"), page_module.__dict__)
            finally:
                os.chdir("/")

    return snippets


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"the snippets of a page may take {TIMEOUT_S} seconds")


def run_all(pages: Sequence[Path], root: Path, ground: str) -> list[str]:
    """Runs the pages, as many at a time as there are processors; what went wrong."""
    forks.prepare(*PRELOADED, compiles=bool(PRELOADED) and ground == "cpu")
    shown = [page.relative_to(root).as_posix() for page in pages]
    results = forks.ended([run(str(page), name, ground) for page, name in zip(pages, shown, strict=True)])
    return [f"{name}: {one.fault}" for name, one in zip(shown, results, strict=True) if one.code != 0]


def main(root: Path, arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--ground", choices=("cpu", "sim"), default="cpu")
    parsed = parser.parse_args(arguments)
    wanted = [root / path for path in parsed.paths] or [root]
    pages = [path for path in tracked(root) if path.suffix == ".md" and path.exists()]
    marked = [
        page
        for page in pages
        if any(page.is_relative_to(path) for path in wanted)
        and program(page.read_text(), parsed.ground)
        and not same_code(page)
    ]
    faults = run_all(marked, root, parsed.ground)
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    sys.stdout.write(
        f"snippets of {len(marked)} pages: {len(marked) - len(faults)} passed, {len(faults)} failed\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), sys.argv[1:]))
