"""The site as `nox -s site` built it, in Chromium: pages in both languages, schemes and widths, and the search."""

from __future__ import annotations

import functools
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build/site"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PAGES = ("", "reduce-overhead/", "reference/api/air-geir/")
WIDTHS = (1280, 390)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")


class Quiet(SimpleHTTPRequestHandler):
    """Serves the site below /air/, as it will be published, and writes no log."""

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/air"))

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    assert (SITE / "index.html").exists(), "build it first: nox -s site"
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/air/"
    server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


def opened(
    browser: Browser, address: str, width: int = 1280, scheme: Any = "light"
) -> tuple[Page, list[str]]:
    """A page at an address, and what went wrong while it was loaded: errors, and requests that leave the machine."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, locale="en-GB")
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request", lambda r: wrong.append(r.url) if "127.0.0.1" not in r.url and r.url[:4] == "http" else None
    )
    page.goto(address, wait_until="load")
    return page, [one for one in wrong if "versions.json" not in one and "404" not in one]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("language", ["", "zh/"])
def test_pages_load_without_errors_and_fit_both_widths(
    browser: Browser, address: str, language: str, name: str
) -> None:
    """Each page is loaded light and wide in one language, dark and narrow in the other, and then made as the other."""
    dark = PAGES.index(name) % 2 == (language == "")
    widths = WIDTHS[::-1] if dark else WIDTHS
    page, wrong = opened(browser, f"{address}{language}{name}", widths[0], "dark" if dark else "light")
    assert not wrong
    assert page.locator("h1").first.inner_text()
    assert dark == (page.locator("body[data-md-color-scheme=slate]").count() == 1)
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width
    page.close()


@pytest.mark.parametrize(
    ("language", "words", "leads_to"),
    [("", "buckets padded", "reduce-overhead/"), ("zh/", "架构", "zh/architecture/")],
)
def test_the_search_finds_a_page(
    browser: Browser, address: str, language: str, words: str, leads_to: str
) -> None:
    page, _ = opened(browser, f"{address}{language}")
    asked = page.locator("input.md-search__input")
    asked.click()
    asked.fill(words)
    asked.press("End")  # what is filled in is read when a key is let go
    found = page.locator("a.md-search-result__link")
    found.first.wait_for(state="attached", timeout=30_000)
    targets = [str(found.nth(at).get_attribute("href")) for at in range(found.count())]
    assert any(leads_to in target for target in targets), targets
    page.close()


def test_the_language_can_be_changed_on_a_page(browser: Browser, address: str) -> None:
    page, _ = opened(browser, f"{address}quick-start/")
    link = page.locator("a.md-select__link[hreflang=zh]").first
    page.goto(urljoin(page.url, link.get_attribute("href")))
    assert page.locator("html").get_attribute("lang") == "zh"
    assert "zh/quick-start" in page.url
    assert page.locator(".md-nav__link", has_text="快速上手").count()  # pages are named by their own titles
    page.close()


def test_a_code_block_is_highlighted_and_marks_for_tools_are_not_shown(
    browser: Browser, address: str
) -> None:
    page, _ = opened(browser, f"{address}quick-start/")
    assert page.locator(".highlight .kn").count()
    text = page.locator("article").inner_text()
    assert "<!--" not in text
    assert "run -->" not in text
    page.close()
