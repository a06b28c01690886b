"""A translation has the structure of its page, says which version it translates, and is told when it is behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from house import snippets, translations
from house.translations import Page, accepted, judge, version_of

ROOT = Path(__file__).resolve().parents[2]
CODE = "<!-- run -->\n```python\nx = 1  # a comment\n```\n"
ENGLISH = f"# Title\n\nWords of [a page](other.md).\n\n{CODE}\n## End\n\n```\nout\n```\n"
CHINESE = f"# 标题\n\n另一个[页面](other.zh.md)。\n\n{CODE}\n## 结尾\n\n```\nout\n```\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """One page, translated."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "page.md").write_text(ENGLISH)
    (folder / "page.zh.md").write_text(accepted(Page(ENGLISH, CHINESE), "page.md"))
    return folder


def test_an_accepted_translation_has_no_fault_and_is_not_behind(docs: Path) -> None:
    assert judge(docs) == ([], [])
    assert translations.main(docs.parent, ["--strict"]) == 0


def test_a_page_without_a_translation_is_behind_and_a_translation_without_a_page_a_fault(docs: Path) -> None:
    (docs / "new.md").write_text("# New\n")
    (docs / "old.zh.md").write_text("# 旧\n")
    assert judge(docs) == (["old.zh.md: there is no English page of this name"], ["new.md"])
    (docs / "old.zh.md").unlink()
    assert translations.main(docs.parent) == 0
    assert translations.main(docs.parent, ["--strict"]) == 1


def test_generated_pages_stay_english(docs: Path) -> None:
    (docs / "reference").mkdir()
    (docs / "reference/config.md").write_text("# Options\n")
    (docs / "errors.md").write_text("# Errors\n")
    assert judge(docs) == ([], [])


def test_a_page_that_has_changed_is_behind_until_it_is_accepted_again(docs: Path) -> None:
    (docs / "page.md").write_text(ENGLISH.replace("Words", "Other words").replace("x = 1", "x = 2"))
    assert judge(docs) == ([], ["page.md"])
    assert translations.main(docs.parent) == 0
    assert translations.main(docs.parent, ["--strict"]) == 1
    assert translations.main(docs.parent, ["--strict", "--accept", "docs/page.zh.md"]) == 0
    assert "x = 2" in (docs / "page.zh.md").read_text()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("## 结尾", "### 结尾", "other headings"),
        ("x = 1", "y = 1", "code that is not"),
        ("other.zh.md", "third.zh.md", "no link to other.md"),
    ],
)
def test_another_structure_is_told(docs: Path, before: str, after: str, said: str) -> None:
    page = docs / "page.zh.md"
    page.write_text(page.read_text().replace(before, after))
    (fault,) = judge(docs)[0]
    assert said in fault


def test_a_translation_without_its_version_is_told(docs: Path) -> None:
    (docs / "page.zh.md").write_text(CHINESE)
    assert "does not say which version" in judge(docs)[0][0]


def test_what_is_no_translation_cannot_be_accepted(docs: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        translations.main(docs.parent, ["--accept", "docs/page.md"])
    assert stopped.value.code == 2


def test_a_version_is_the_name_that_git_has_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(ENGLISH)
    command = ["git", "hash-object", "--no-filters", str(tmp_path / "page.md")]
    name = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert name.startswith(version_of(ENGLISH))


def test_snippets_of_a_translation_run_only_where_they_differ(docs: Path) -> None:
    page = docs / "page.zh.md"
    assert snippets.same_code(page)
    assert not snippets.same_code(docs / "page.md")
    page.write_text(page.read_text().replace("x = 1", "x = 2"))
    assert not snippets.same_code(page)


def test_the_translations_of_the_guide_have_the_same_headings_and_the_same_code() -> None:
    assert judge(ROOT / "docs")[0] == []  # that none is behind, a release asks: nox -s release
