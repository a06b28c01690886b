"""The page of the scoreboard in Chromium: both schemes and widths, with records and without."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from house.scoreboard import _page, _records

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = {"desk": 1280, "phone": 390}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.mark.parametrize("recorded", [True, False], ids=["records", "nothing recorded"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_width_and_the_console_stays_empty(
    browser: Browser, tmp_path: Path, scheme: Any, width: int, recorded: bool
) -> None:
    records = _records.read_all(ROOT) if recorded else {}
    path = tmp_path / "scoreboard.html"
    path.write_text(_page.page(records))
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    wrong: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda request: None if request.url == path.as_uri() else wrong.append(request.url))
    tab.goto(path.as_uri(), wait_until="load")
    assert [each for each in wrong if not each.startswith("data:")] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert overflowing(tab) == []
    assert tab.locator("article.open").count() == tab.locator("article").count() or recorded
    assert (tab.locator("li.row").count() > 0) == recorded
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 29)"
    assert dark == (scheme == "dark")
    tab.close()


def overflowing(tab: Any) -> list[str]:
    """The texts that are wider than the box they stand in."""
    found: list[str] = tab.evaluate(
        "[...document.querySelectorAll('article, article p, li.row > *')]"
        ".filter(each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth).map(each => each.textContent)"
    )
    return found
