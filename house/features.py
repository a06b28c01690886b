"""Makes docs/features.md of the ledger and of the tests that are named after its rows.

    python -m house.features                     write the page
    python -m house.features --check             fail when the page is out of date
    python -m house.features --results FOLDER    fail when a row counted as shown has no test that passed there

A test shows a row when it is called `test_S14_...`; one test may show several: `test_S14_S16_...`. A row without a test
says why in the ledger (`open = "..."`), or the page calls it open without a reason.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import tomllib

LEDGER: Final = Path("docs/features.toml")
PAGE: Final = Path("docs/features.md")
TEST: Final = re.compile(r"^\s*(?:async )?def (test_(?:[SAGN]\d\d_)+\w+)\(", re.MULTILINE)
ROW: Final = re.compile(r"[SAGN]\d\d(?=_)")
FAMILIES: Final = {
    "S": "Asked for by the documents that AIR implements",
    "A": "Beyond them: capture and replay",
    "G": "Beyond them: Ascend IR",
    "N": "Not found elsewhere",
}


def tests_by_row(root: Path) -> dict[str, list[tuple[str, Path]]]:
    """Every ledger id that tests are named after, with those tests and the files they are in."""
    found: dict[str, list[tuple[str, Path]]] = {}
    for path in sorted(root.glob("packages/*/tests/**/test_*.py")):
        for name in TEST.findall(path.read_text()):
            for row in ROW.findall(name):
                found.setdefault(row, []).append((name, path.relative_to(root)))
    return found


def page(ledger: dict[str, dict[str, str]], tests: dict[str, list[tuple[str, Path]]]) -> str:
    """The text of docs/features.md."""
    shown = sum(1 for row in ledger if row in tests)
    lines = [
        "# Features",
        "",
        f"{shown} of {len(ledger)} rows are shown by tests named after them. Generated from `features.toml` and the",
        "tests by `python -m house.features`; do not edit.",
    ]
    for family, title in FAMILIES.items():
        lines += ["", f"## {title}", "", "| id | feature | shown by |", "|---|---|---|"]
        rows = {row: entry for row, entry in ledger.items() if row.startswith(family)}
        lines += [
            f"| {row} | {_cell(entry['feature'])} | {_shown(tests.get(row, []), entry)} |"
            for row, entry in rows.items()
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _shown(tests: list[tuple[str, Path]], entry: dict[str, str]) -> str:
    if not tests:
        return f"open: {_cell(entry['open'])}" if "open" in entry else "open"
    files = sorted({path for _, path in tests})
    return ", ".join(f"[{path.parts[1]}/{path.name}](../{path.as_posix()})" for path in files)


def passed_in(results: Path) -> Iterator[str]:
    """The names of the tests that passed, from the JUnit files of a run."""
    for path in results.glob("*.xml"):
        for case in ElementTree.parse(path).iter("testcase"):
            if not any(case.find(kind) is not None for kind in ("failure", "error", "skipped")):
                yield case.get("name", "").partition("[")[0]


def unproven(tests: dict[str, list[tuple[str, Path]]], results: Path) -> list[str]:
    """The rows that the page calls shown although none of their tests passed in the run."""
    passed = set(passed_in(results))
    return [row for row, named in sorted(tests.items()) if not any(name in passed for name, _ in named)]


def main(arguments: list[str], root: Path) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", type=Path)
    parsed = parser.parse_args(arguments)
    ledger = tomllib.loads((root / LEDGER).read_text())
    tests = tests_by_row(root)
    if unknown := sorted(set(tests) - set(ledger)):
        sys.stdout.write(f"tests are named after rows that the ledger does not have: {', '.join(unknown)}\n")
        return 1
    if parsed.results is not None:
        missing = unproven(tests, parsed.results)
        sys.stdout.write(
            f"{len(tests)} rows have tests; without a passed one: {', '.join(missing) or 'none'}\n"
        )
        return 1 if missing else 0
    text = page(ledger, tests)
    if not parsed.check:
        (root / PAGE).write_text(text)
    elif not (root / PAGE).exists() or (root / PAGE).read_text() != text:
        sys.stdout.write(f"{PAGE} is out of date; write it with `python -m house.features`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
