"""What mkdocs calls while it builds the site: links out of `docs/`, anchors, and a note on pages that are behind.

The pages are written for a reader of the repository. Here a link to a file that is no page becomes one to the
repository, and a link to `page.zh.md` one to the page in the language at hand. A heading has one anchor in both
languages, that of its English title, so that links and bookmarks survive a change of language.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from house.links import HEADING, NOT_A_LETTER
from house.translations import FENCE, STAMP, SUFFIX, Page, source_of

TARGET: Final = re.compile(r"(?P<before>\[[^\]]*\]\()(?P<name>[^)\s#:]*)(?P<anchor>#[^)\s]*)?\)")
FENCED: Final = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
HAN: Final = "[\u3000-\u303f\u4e00-\u9fff\uff01-\uff60]"
BROKEN_LINE: Final = re.compile(
    rf"(?<={HAN})\n *(?={HAN})"
)  # a browser shows it as a space between two signs
BEHIND: Final = '!!! warning "译文落后"\n\n    英文页面在本译文之后有改动。请以英文版为准。\n\n'


def anchor(text: str, separator: str = "-") -> str:
    """The name under which a heading can be linked, as code hosts make it."""
    return NOT_A_LETTER.sub("", text.strip().lower()).replace(" ", separator)


def titles(text: str) -> list[str]:
    """The headings of a page, in order."""
    return HEADING.findall(FENCE.sub("", text))


def english_anchors(translation: Path) -> dict[str, str]:
    """The anchors of a translation, and what the same headings have in English; nothing where headings differ."""
    ours, theirs = titles(translation.read_text()), titles(source_of(translation).read_text())
    if len(ours) != len(theirs):
        return {}
    return {anchor(a): anchor(b) for a, b in zip(ours, theirs, strict=True)}


def resolved(markdown: str, page: Path, docs: Path, repository: str) -> str:
    """A page whose links lead to pages of the site, or to files of the repository."""

    def changed(match: re.Match[str]) -> str:
        name, fragment = match["name"], match["anchor"] or ""
        file = Path(os.path.normpath(page.parent / name)) if name else page
        if not file.is_relative_to(docs) or file.suffix != ".md":
            inside = os.path.relpath(file, docs.parent)
            return f"{match['before']}{repository}/blob/main/{inside}{fragment})"
        if file.name.endswith(SUFFIX):
            name = name and name.removesuffix(SUFFIX) + ".md"
            fragment = fragment and "#" + english_anchors(file).get(fragment[1:], fragment[1:])
        return f"{match['before']}{name}{fragment})"

    parts = FENCED.split(markdown)
    return "".join(part if at % 2 else TARGET.sub(changed, part) for at, part in enumerate(parts))


def with_english_anchors(markdown: str, translation: Path) -> str:
    """A translation whose headings say which anchor they have."""
    known = english_anchors(translation)
    lines, inside = [], False
    for line in markdown.split("\n"):
        inside ^= line.startswith("```")
        heading = None if inside else HEADING.match(line)
        name = heading and known.get(anchor(heading[1]))
        lines.append(f"{line} {{ #{name} }}" if name else line)
    return "\n".join(lines)


def joined(markdown: str) -> str:
    """Chinese prose without the ends of lines inside of it, which would be shown as spaces."""
    parts = FENCED.split(markdown)
    return "".join(part if at % 2 else BROKEN_LINE.sub("", part) for at, part in enumerate(parts))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """mkdocs: the text of a page before it becomes HTML."""
    docs, path = Path(config["docs_dir"]), Path(page.file.abs_src_path)
    text = resolved(markdown, path, docs, config["repo_url"])
    if not path.name.endswith(SUFFIX):
        return text
    text = with_english_anchors(joined(STAMP.sub("", text)), path)
    if Page(source_of(path).read_text(), path.read_text()).behind:
        title, _, rest = text.partition("\n\n")
        text = f"{title}\n\n{BEHIND}{rest}"
    return text
