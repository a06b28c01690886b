"""Makes docs/features.md of the ledger and of the tests that are named after its rows.

    python -m house.features                     write the page
    python -m house.features --check             fail when the page is out of date
    python -m house.features --results FOLDER    fail when a row counted as shown has no test that passed there

A test shows a row when it is called `test_S14_...`; one test may show several: `test_S14_S16_...`. A row without a test
says why in the ledger (`open = "..."`), and a row with one does not.

A section of the guide explains a row when `<!-- features: S14 S16 -->` stands below its heading. Such a section has a
snippet that runs, and every row that is shown has a section.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

import tomllib

from house.faults import cell, told, written
from house.links import NOT_A_LETTER

LEDGER: Final = Path("docs/features.toml")
PAGE: Final = Path("docs/features.md")
TEST: Final = re.compile(r"^\s*(?:async )?def (test_(?:[SAGN]\d\d_)+\w+)\(", re.MULTILINE)
ROW: Final = re.compile(r"[SAGN]\d\d(?=_)")
MARK: Final = re.compile(
    r"^(?P<level>#+) +(?P<title>.+)\n+<!-- features: (?P<rows>[SAGN\d, ]+) -->$", re.MULTILINE
)
RUNS: Final = re.compile(r"^<!-- run[:a-z, ]* -->$", re.MULTILINE)
FAMILIES: Final = {
    "S": "Asked for by the documents that AIR implements",
    "A": "Beyond them: capture and replay",
    "G": "Beyond them: Ascend IR",
    "N": "Not found elsewhere",
}


class Section(NamedTuple):
    """A part of the guide that explains rows of the ledger."""

    page: Path
    title: str
    rows: tuple[str, ...]
    runs: bool

    def link(self) -> str:
        anchor = NOT_A_LETTER.sub("", self.title.lower()).replace(" ", "-")
        return f"[{self.title}]({self.page.relative_to('docs').as_posix()}#{anchor})"


def sections(root: Path) -> list[Section]:
    """The sections of the guide that say which rows they explain."""
    found = []
    for path in sorted(root.glob("docs/**/*.md")):
        text = path.read_text()
        for mark in MARK.finditer(text):
            end = re.compile(rf"^#{{1,{len(mark['level'])}}} ", re.MULTILINE).search(text, mark.end())
            body = text[mark.end() : end.start() if end else len(text)]
            rows = tuple(mark["rows"].replace(",", " ").split())
            found.append(Section(path.relative_to(root), mark["title"], rows, bool(RUNS.search(body))))
    return found


def faults_of_guide(ledger: dict[str, dict[str, str]], guide: list[Section]) -> Iterator[str]:
    """What is wrong with the marks of the guide."""
    for section in guide:
        if unknown := sorted(set(section.rows) - set(ledger)):
            yield f"{section.page}: {section.title!r} names rows the ledger does not have: {', '.join(unknown)}"
        if not section.runs:
            yield f"{section.page}: {section.title!r} explains {', '.join(section.rows)} and has no snippet that runs"


def unexplained(tests: dict[str, list[tuple[str, Path]]], guide: list[Section]) -> list[str]:
    """The rows that are shown by tests and that no section of the guide explains."""
    return sorted(set(tests) - {row for section in guide for row in section.rows})


def faults_of_ledger(
    ledger: dict[str, dict[str, str]], tests: dict[str, list[tuple[str, Path]]]
) -> Iterator[str]:
    """Rows that are open without a reason, or have a reason although tests show them."""
    for row, entry in ledger.items():
        if row not in tests and not entry.get("open"):
            yield f'{LEDGER}: {row} has no test and does not say why: open = "..."'
        if row in tests and "open" in entry:
            yield f"{LEDGER}: {row} is called open, and {tests[row][0][0]} shows it"


def tests_by_row(root: Path) -> dict[str, list[tuple[str, Path]]]:
    """Every ledger id that tests are named after, with those tests and the files they are in."""
    found: dict[str, list[tuple[str, Path]]] = {}
    for path in sorted(root.glob("packages/*/tests/**/test_*.py")):
        for name in TEST.findall(path.read_text()):
            for row in ROW.findall(name):
                found.setdefault(row, []).append((name, path.relative_to(root)))
    return found


def page(
    ledger: dict[str, dict[str, str]], tests: dict[str, list[tuple[str, Path]]], guide: list[Section]
) -> str:
    """The text of docs/features.md."""
    shown = sum(1 for row in ledger if row in tests)
    lines = [
        "# Features",
        "",
        f"{shown} of {len(ledger)} rows are shown by tests named after them. Generated from `features.toml` and the",
        "tests by `python -m house.features`; do not edit.",
    ]
    for family, title in FAMILIES.items():
        lines += ["", f"## {title}", "", "| id | feature | guide | shown by |", "|---|---|---|---|"]
        rows = {row: entry for row, entry in ledger.items() if row.startswith(family)}
        lines += [
            f"| {row} | {cell(entry['feature'])} | {_explained(row, guide)} | {_shown(tests.get(row, []), entry)} |"
            for row, entry in rows.items()
        ]
    return "\n".join(lines) + "\n"


def _explained(row: str, guide: list[Section]) -> str:
    return ", ".join(section.link() for section in guide if row in section.rows)


def _shown(tests: list[tuple[str, Path]], entry: dict[str, str]) -> str:
    if not tests:
        return f"open: {cell(entry['open'])}" if "open" in entry else "open"
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
    guide = sections(root)
    wrong = [*faults_of_guide(ledger, guide), *faults_of_ledger(ledger, tests)]
    text = page(ledger, tests, guide)
    if parsed.check and (missing := unexplained(tests, guide)):
        wrong.append(f"rows that tests show and no section of the guide explains: {', '.join(missing)}")
    return told([*wrong, *written(root / PAGE, text, PAGE, "house.features", check=parsed.check)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
