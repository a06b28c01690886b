"""Checks the site as it was built: addresses that stay inside lead to a file and a place, and no markup shows as text.

python -m house.built_site build/site
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

ADDRESSES: Final = frozenset({"href", "src"})
UNREAD: Final = frozenset({"code", "pre", "script", "style", "svg"})  # what is in them is no prose
MARKUP: Final = re.compile(r".{0,30}(?:\*\*|\]\(|`|\{ #|\|---|<!--|^ *[-*] |^#+ ).{0,30}", re.MULTILINE)


class _Page(HTMLParser):
    """The addresses and the anchors of a page, and its prose."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.anchors: set[str] = set()
        self.prose = ""
        self._inside = {"article": 0, "unread": 0}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._count(tag, 1)
        for name, value in attrs:
            if value and name in ADDRESSES and not (tag == "link" and ("rel", "canonical") in attrs):
                self.addresses.add(value)
            elif value and name in ("id", "name"):
                self.anchors.add(value)

    def handle_endtag(self, tag: str) -> None:
        self._count(tag, -1)

    def handle_data(self, data: str) -> None:
        if self._inside["article"] and not self._inside["unread"]:
            self.prose += data

    def _count(self, tag: str, by: int) -> None:
        if tag == "article" or tag in UNREAD:
            self._inside["article" if tag == "article" else "unread"] += by


@functools.cache
def read(path: Path) -> _Page:
    return _Page(path.read_text())


def dead(page: Path, root: Path, base: str) -> Iterator[str]:
    """The addresses of one page that lead nowhere; `base` is the path at which the root will be served."""
    for address in sorted(read(page).addresses):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        path = unquote(parts.path)
        target = root / path.removeprefix(base).lstrip("/") if path.startswith("/") else page.parent / path
        target = page if not path else target
        target = target / "index.html" if target.is_dir() else target
        shown = f"{page.relative_to(root)}: {address}"
        if not target.exists():
            yield f"{shown}: there is no such file"
        elif parts.fragment and target.suffix == ".html":
            wanted = unquote(parts.fragment)
            if wanted not in read(target.resolve()).anchors and not wanted.startswith("__"):
                yield f"{shown}: there is no such place"


def shown_markup(page: Path) -> Iterator[str]:
    """Markdown that did not become anything: a list without a blank line before it, bold text that does not end."""
    for match in MARKUP.finditer(read(page).prose):
        yield f"markup is shown as text: {match.group().strip()!r}"


def main(root: Path, base: str = "/air/") -> int:
    pages = sorted(path.resolve() for path in root.resolve().glob("**/*.html"))
    found = [fault for page in pages for fault in dead(page, root.resolve(), base)]
    found += [
        f"{page.relative_to(root.resolve())}: {fault}" for page in pages for fault in shown_markup(page)
    ]
    sys.stdout.writelines(f"{fault}\n" for fault in found)
    sys.stdout.write(f"{len(pages)} pages, {len(found)} faults\n")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
