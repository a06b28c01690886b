"""The feature page follows the ledger and the tests, and a row without a passed test is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import features

RESULT = """<testsuite>
<testcase name="test_S01_works[cpu]"/>
<testcase name="test_S02_works"><skipped/></testcase>
</testsuite>"""

GUIDE = """# Guide

## The first, and the third

<!-- features: S01 N01 -->

### How

<!-- run: cpu, sim -->
```python
pass
```

## More
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    ledger = '[S01]\nfeature = "first"\n[S02]\nfeature = "second"\nopen = "later"\n[N01]\nfeature = "third"\n'
    (tmp_path / "docs/features.toml").write_text(ledger)
    (tmp_path / "docs/guide.md").write_text(GUIDE)
    tests = tmp_path / "packages/air-x/tests"
    tests.mkdir(parents=True)
    (tests / "test_one.py").write_text(
        "def test_S01_works():\n    pass\n\n\ndef test_N01_S01_too():\n    pass\n"
    )
    (tmp_path / "results").mkdir()
    (tmp_path / "results/one.xml").write_text(RESULT)
    return tmp_path


def test_the_page_links_each_row_to_its_tests_and_gives_the_reason_of_open_ones(root: Path) -> None:
    assert features.main([], root) == 0
    text = (root / "docs/features.md").read_text()
    assert "2 of 3 rows" in text
    guide = "[The first, and the third](guide.md#the-first-and-the-third)"
    assert f"| S01 | first | {guide} | [air-x/test_one.py](../packages/air-x/tests/test_one.py) |" in text
    assert "| S02 | second |  | open: later |" in text


def test_a_page_out_of_date_fails_the_check(root: Path) -> None:
    features.main([], root)
    assert features.main(["--check"], root) == 0
    (root / "docs/features.md").write_text("old\n")
    assert features.main(["--check"], root) == 1


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ('open = "later"', "", "S02 has no test and does not say why"),
        (
            'feature = "first"',
            'feature = "first"\nopen = "later"',
            "S01 is called open, and test_S01_works shows it",
        ),
    ],
)
def test_a_row_is_shown_or_says_why_it_is_not(
    root: Path, capsys: pytest.CaptureFixture[str], before: str, after: str, fault: str
) -> None:
    ledger = root / "docs/features.toml"
    ledger.write_text(ledger.read_text().replace(before, after))
    assert features.main(["--check"], root) == 1
    assert fault in capsys.readouterr().out


def test_a_row_whose_tests_did_not_pass_fails(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert features.main(["--results", str(root / "results")], root) == 1
    assert "N01" in capsys.readouterr().out


def test_a_test_named_after_an_unknown_row_fails(root: Path) -> None:
    (root / "packages/air-x/tests/test_two.py").write_text("def test_S99_works():\n    pass\n")
    assert features.main([], root) == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("S01 N01", "N01", "no section of the guide explains: S01"),
        ("S01 N01", "S01 N01 S77", "rows the ledger does not have: S77"),
        ("<!-- run: cpu, sim -->", "", "has no snippet that runs"),
        ("### How", "## How", "has no snippet that runs"),
    ],
)
def test_a_shown_row_needs_a_section_with_a_snippet(
    root: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    (root / "docs/guide.md").write_text(GUIDE.replace(old, new))
    features.main([], root)
    assert features.main(["--check"], root) == 1
    assert said in capsys.readouterr().out
