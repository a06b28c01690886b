"""Links and anchors of the site, before it is built and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import built_site, site

REPOSITORY = "https://example.org/source"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "cases").mkdir(parents=True)
    (folder / "page.md").write_text("# A page\n\n## The `end`\n")
    (folder / "page.zh.md").write_text("# 页面\n\n## 结尾\n\n见[结尾](#结尾)。\n")
    return folder


@pytest.mark.parametrize(
    ("link", "becomes"),
    [
        ("[x](page.md#the-end)", "[x](page.md#the-end)"),
        ("[x](page.zh.md#结尾)", "[x](page.md#the-end)"),
        ("[x](../packages/a/README.md)", f"[x]({REPOSITORY}/blob/main/packages/a/README.md)"),
        ("[x](features.toml)", f"[x]({REPOSITORY}/blob/main/docs/features.toml)"),
        ("[x](https://example.org)", "[x](https://example.org)"),
        ("`[x](../a.md)`", "`[x](../a.md)`"),
    ],
)
def test_a_link_leads_to_a_page_of_the_site_or_to_the_repository(docs: Path, link: str, becomes: str) -> None:
    assert site.resolved(link, docs / "page.md", docs, REPOSITORY) == becomes


def test_headings_of_a_translation_have_the_anchors_of_the_english_page(docs: Path) -> None:
    page = docs / "page.zh.md"
    text = site.resolved(page.read_text(), page, docs, REPOSITORY)
    assert "[结尾](#the-end)" in text
    assert "## 结尾 { #the-end }" in site.with_english_anchors(text, page)
    assert "# 页面 { #a-page }" in site.with_english_anchors(text, page)


def test_a_line_that_breaks_between_two_chinese_signs_is_joined_and_no_other() -> None:
    assert site.joined("一行。\n下一行") == "一行。下一行"
    assert site.joined("一行\nAIR\n- 列表") == "一行\nAIR\n- 列表"
    assert site.joined("```\n一\n二\n```") == "```\n一\n二\n```"


@pytest.mark.parametrize(
    ("address", "dead"),
    [
        ("other.html", 0),
        ("other.html#here", 0),
        ("/air/other.html", 0),
        ("https://example.org/x", 0),
        ("third.html", 1),
        ("other.html#there", 1),
        ("/air/third.html", 1),
    ],
)
def test_an_address_of_the_built_site_must_lead_somewhere(tmp_path: Path, address: str, dead: int) -> None:
    built_site.read.cache_clear()
    (tmp_path / "other.html").write_text('<p id="here">')
    (tmp_path / "index.html").write_text(f'<a href="{address}">x</a>')
    assert built_site.main(tmp_path) == dead


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a <b>word</b>", 0),
        ("<code>a ** b</code>", 0),
        ("two **words", 1),
        ("so:\n- one", 1),
        ("[a](b.md)", 1),
    ],
)
def test_markup_that_is_shown_as_text_is_told(tmp_path: Path, text: str, code: int) -> None:
    built_site.read.cache_clear()
    (tmp_path / "index.html").write_text(f"<nav>**</nav><article>{text}</article>")
    assert built_site.main(tmp_path) == code


def test_a_folder_without_pages_is_no_site(tmp_path: Path) -> None:
    assert built_site.main(tmp_path) == 1
