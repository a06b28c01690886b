"""The guide has what a stranger looks for, and its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

import air_backend
from air_config import FLAT_OPTIONS, OPTIONS

DOCS: Final = Path(__file__).parents[3] / "docs"
ASKED_FOR: Final = (
    "install.md",
    "quick-start.md",
    "README.zh.md",
    "reference/config.md",
    "reference/api/air-backend.md",
    "operators.md",
    "architecture.md",
    "cases/llm-decode.md",
    "cases/multi-stream.md",
    "cases/accuracy.md",
    "cases/performance.md",
    "faq.md",
    "errors.md",
    "migration.md",
    "limits.md",
)


def read(name: str) -> str:
    return (DOCS / name).read_text()


@pytest.mark.parametrize("name", ASKED_FOR)
def test_S28_the_index_leads_to_every_kind_of_page_that_was_asked_for(name: str) -> None:
    assert f"]({name})" in read("README.md")
    assert len(read(name)) > 500


def test_S28_the_index_leads_to_every_page_of_the_guide() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md")}
    translated = {page for page in pages if page.endswith(".zh.md")}
    for index, found in (("README.md", pages - translated), ("README.zh.md", translated)):
        assert not {page for page in found - {index} if f"]({page})" not in read(index)}


def test_S28_every_asked_for_feature_has_a_section_of_the_guide() -> None:
    asked = set(re.findall(r"^\[(S\d\d)\]$", read("features.toml"), re.MULTILINE))
    assert len(asked) > 20
    marks = "\n".join(path.read_text() for path in DOCS.glob("**/*.md"))
    explained = set(
        " ".join(re.findall(r"^<!-- features: (.+) -->$", marks, re.MULTILINE)).replace(",", " ").split()
    )
    assert not asked - explained


@pytest.mark.parametrize("name", ["cases/llm-decode.md", "cases/multi-stream.md", "cases/performance.md"])
def test_S28_a_case_runs_on_plain_tensors_and_on_air_sim(name: str) -> None:
    fences = re.findall(r"^(.*)\n```python$", read(name), re.MULTILINE)
    assert fences
    assert set(fences) == {"<!-- run: cpu, sim -->"}


def test_the_migration_page_has_every_option_of_torchair_with_its_short_name() -> None:
    page = read("migration.md")
    short = {row.path: row for row in FLAT_OPTIONS}
    for path in (path for path in OPTIONS if not path.startswith("air.")):
        row = short.get(path)
        names = "" if row is None else f"`{row.name}`" + (", the opposite" if row.inverted else "")
        assert f"| `{path}` | {names} |" in page, path


def test_the_migration_page_calls_the_same_only_what_is_there() -> None:
    table = read("migration.md").partition("## Names")[2].partition("## Options")[0]
    same = [
        cells[0] for line in table.splitlines() if "| the same" in line and (cells := line[1:].split("|"))
    ]
    names = re.findall(r"`([\w.]+)", " ".join(same))
    assert len(names) > 15
    for name in names:
        value: object = air_backend
        for part in name.split("."):
            value = getattr(value, part)
