"""The reference page names every option, rule, preset and short name, and is the page in the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from air_config import FLAT_OPTIONS, OPTIONS, PRESETS, RULES
from air_config.__main__ import DEFAULT_PAGE
from air_config._reference import reference_page

PAGE = reference_page()
COLUMNS = 7
"""Of a table of options."""


@pytest.mark.parametrize("path", OPTIONS)
def test_every_option_has_a_row_with_its_default_status_and_rules(path: str) -> None:
    row = OPTIONS[path]
    lines = [each for each in PAGE.splitlines() if each.startswith(f"| `{path}` |")]
    (line,) = [each for each in lines if len(re.findall(r"(?<!\\)\|", each)) == COLUMNS + 1]
    assert f"`{row.default!r}`" in line
    assert f"| {row.status} |" in line
    assert row.environment_name in line
    for rule in RULES:
        assert (f"[{rule.name}](#" in line) == (path in rule.options)


def test_every_link_has_its_heading() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(#([^)]+)\)", PAGE):
        assert re.sub(r"[^a-z0-9-]", "", target) in headings, target


def test_rules_presets_and_short_names_are_all_there() -> None:
    for rule in RULES:
        assert f"### {rule.name}\n" in PAGE
        assert rule.source in PAGE
    for preset in PRESETS:
        assert f"| `{preset}` |" in PAGE
    for row in FLAT_OPTIONS:
        assert f"| `{row.name}` | `{row.path}` |" in PAGE


def test_every_table_has_rows_of_equal_width() -> None:
    tables = re.findall(r"(?:^\|.*\|\n)+", PAGE, re.MULTILINE)
    assert len(tables) > 15
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table.splitlines()[0]


def test_the_page_in_the_repository_is_up_to_date() -> None:
    path = Path(__file__).parents[3] / DEFAULT_PAGE
    if not path.exists():
        pytest.skip("these tests run outside the repository, which holds the page")
    assert path.read_text(encoding="utf-8") == PAGE, "run: python -m air_config docs"
