"""The page with plots in Chromium: light and dark, a desk's and a phone's width."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from house.scoreboard import page
from house.scoreboard.board import boards

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_its_console_stays_empty(tmp_path: Path, scheme: Any, width: int) -> None:
    file = tmp_path / "scoreboard.html"
    file.write_text(page.page(boards(ROOT / "benchmarks/results")))
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        opened.goto(file.as_uri())
        fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert opened.evaluate(fits)
        ours = opened.locator(".bar.air")
        assert ours.count() > 5
        boxes = [ours.nth(at).bounding_box() for at in range(1, ours.count())]
        assert all(box is not None and box["width"] >= 2 and box["height"] > 5 for box in boxes)
        dark = opened.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (scheme == "dark")
        opened.screenshot(path=str(tmp_path / "page.png"), full_page=True)
        browser.close()
    assert wrong == []
