"""Puts views together to one page: tables of texts, lines of the program, and the script that draws.

The files beside this module are the page: `page.html` with four places to fill, `page.css`, and one script per idea. No
library draws: those that lay out graphs in a browser weigh more than a report and take minutes for 20,000 nodes in one
level. Folded by module no level is large, and a level of a few hundred boxes is laid out in a millisecond.
"""

from __future__ import annotations

import html
import json
import linecache
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

from air_graph.page._picture import KINDS, Picture

SCRIPTS: Final = ("elements", "tree", "layout", "camera", "graph", "lanes", "others", "main")
_AROUND: Final = 4  # lines of the program shown on each side of one that made a node
_SOURCE: Final = re.compile(r"(?P<file>.*?):(?P<line>\d+)(?: {3}(?P<code>.*))?\Z", re.S)


class _Table(dict[str, int]):
    """Texts by their numbers, each held once."""

    def at(self, text: str) -> int:
        return self.setdefault(text, len(self))


class Page:
    """A page in the making: add views in the order of their tabs, then ask for `html()`."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.summary = ""
        """What the first tab shows, as HTML; no such tab without it. The caller escapes the texts in it."""
        self._views: list[dict[str, Any]] = []
        self._lines = _Table()
        self._sources: list[tuple[str, int, str]] = []
        self._notes = _Table()

    def source(self, text: object) -> int:
        """The number of a line of the program (`model.py:88   y = f(x)`), for data and for `data-line`; -1 for none."""
        found = _SOURCE.match(str(text or ""))
        if found is None:
            return -1
        at = self._lines.at(f"{found['file']}:{found['line']}")
        if at == len(self._sources):
            self._sources.append((found["file"], int(found["line"]), (found["code"] or "").strip()))
        return at

    def graphs(self, pictures: Sequence[Picture], title: str = "Graph") -> None:
        """A tab with pictures of graphs, one to be chosen."""
        self.add("graph", title, pictures=[self._columns(picture) for picture in pictures])

    def add(self, kind: str, title: str, **data: Any) -> None:
        """A tab of another kind; each class of the script says at its head what it wants."""
        names = {view["id"] for view in self._views}
        name = kind if kind not in names else f"{kind}{len(names)}"
        self._views.append({"id": name, "kind": kind, "title": title, **data})

    def html(self) -> str:
        """The page."""
        data = {
            "views": self._views,
            "sources": self._sources,
            "notes": list(self._notes),
            "files": self._files(),
        }
        compact = json.dumps(data, separators=(",", ":"), default=str, ensure_ascii=False)
        files = resources.files("air_graph.page")
        scripts = "\n".join(files.joinpath(f"{name}.js").read_text("utf-8") for name in SCRIPTS)
        places = {
            "title": html.escape(self.title),
            "style": files.joinpath("page.css").read_text("utf-8"),
            "head": self.summary,
            "data": compact.replace("<", "\\u003c"),  # no text of a program ends the element it stands in
            "script": f'(() => {{\n"use strict";\n{scripts}}})();',
        }
        template = files.joinpath("page.html").read_text("utf-8")
        return re.sub(r"%(title|style|head|data|script)%", lambda found: places[found[1]], template)

    def _columns(self, picture: Picture) -> dict[str, Any]:
        operators, modules, details = _Table(), _Table(), _Table()
        nodes = picture.nodes
        return {
            "title": picture.title,
            "text": picture.text,
            "kinds": KINDS,
            "names": [node.name for node in nodes],
            "operator": [operators.at(node.operator) for node in nodes],
            "operators": list(operators),
            "kind": [KINDS.index(node.kind) for node in nodes],
            "module": [modules.at(node.module) for node in nodes],
            "modules": list(modules),
            "detail": [details.at(node.detail) for node in nodes],
            "details": list(details),
            "source": [self.source(node.source) for node in nodes],
            "bytes": [node.nbytes for node in nodes],
            "inputs": [node.inputs for node in nodes],
            "notes": {
                at: [self._notes.at(note) for note in node.notes]
                for at, node in enumerate(nodes)
                if node.notes
            },
        }

    def _files(self) -> Mapping[str, Sequence[tuple[int, Sequence[str]]]]:
        """The parts of the program that made nodes, with a few lines around each."""
        wanted: dict[str, set[int]] = {}
        for file, line, _ in self._sources:
            around = range(max(1, line - _AROUND), line + _AROUND + 1)
            wanted.setdefault(file, set()).update(around)
        return {
            file: parts
            for file, numbers in wanted.items()
            if (parts := _parts(linecache.getlines(file), numbers))
        }


def _parts(lines: Sequence[str], numbers: set[int]) -> list[tuple[int, list[str]]]:
    """Stretches of lines without a gap, each with the number of its first."""
    parts: list[tuple[int, list[str]]] = []
    last = 0
    for number in sorted(each for each in numbers if each <= len(lines)):
        if not parts or number != last + 1:
            parts.append((number, []))
        parts[-1][1].append(lines[number - 1].rstrip("\n")[:400])
        last = number
    return parts
