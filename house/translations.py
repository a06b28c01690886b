"""Says which Chinese pages differ from their English page in structure, are behind it, or are missing.

    python -m house.translations                        what is wrong, and which pages are behind
    python -m house.translations --strict               behind or missing is a failure, too: releases are made so
    python -m house.translations --accept docs/faq.zh.md    this page says what its English page says now

The translation of `page.md` is `page.zh.md` beside it. Its first line names the version of the English page that it
translates, as git names a file, so that `git diff` shows what has changed since. Headings have the same levels in the
same order, links lead to the same places, and code is the same to the letter: what runs in one language runs in both.
What is generated stays English.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from house.links import CODE, LINK, OUTSIDE

SUFFIX: Final = ".zh.md"
GENERATED: Final = (
    "reference/",
    "operators.md",
    "errors.md",
    "features.md",
    "models.md",
    "air-sim-operators.md",
)
STAMP: Final = re.compile(r"\A<!-- translation of (?P<page>\S+) at (?P<version>[0-9a-f]{12}) -->\n")
FENCE: Final = re.compile(r"^(?:<!-- run[^\n]*-->\n)?^```.*?^```$", re.MULTILINE | re.DOTALL)
LEVEL: Final = re.compile(r"^(#+) ", re.MULTILINE)


def version_of(text: str) -> str:
    """The name that git has for a file with this text."""
    data = text.encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()[:12]


def english_pages(docs: Path) -> list[Path]:
    """The pages that people write, which are those to be translated."""
    pages = (path for path in docs.glob("**/*.md") if not path.name.endswith(SUFFIX))
    return sorted(path for path in pages if not path.relative_to(docs).as_posix().startswith(GENERATED))


def translation_of(page: Path) -> Path:
    return page.with_name(page.stem + SUFFIX)


def source_of(translation: Path) -> Path:
    """The English page of a translation."""
    return translation.with_name(translation.name.removesuffix(SUFFIX) + ".md")


def code_of(text: str) -> list[str]:
    """The blocks of code of a page, each with the mark that has it run."""
    return FENCE.findall(text)


def levels(text: str) -> list[int]:
    """The levels of the headings, in order."""
    return [len(marks) for marks in LEVEL.findall(FENCE.sub("", text))]


def places(text: str) -> set[str]:
    """The documents that a page links to, without headings: those have other names in other languages."""
    targets = (match["target"].partition("#")[0] for match in LINK.finditer(CODE.sub("", text)))
    return {target.replace(SUFFIX, ".md") for target in targets if target and not OUTSIDE.match(target)}


@dataclass(frozen=True)
class Page:
    """A page in both languages."""

    english: str
    chinese: str

    @property
    def behind(self) -> bool:
        """Whether the English page has changed since it was translated."""
        stamp = STAMP.match(self.chinese)
        return stamp is None or stamp["version"] != version_of(self.english)

    def faults(self) -> Iterator[str]:
        """How the translation differs in structure."""
        if not STAMP.match(self.chinese):
            yield "its first line does not say which version it translates; write it with --accept"
        if (theirs := levels(self.english)) != (ours := levels(self.chinese)):
            yield f"other headings: levels {ours}, in English {theirs}"
        if code_of(self.english) != code_of(self.chinese):
            yield "code that is not that of the English page; --accept copies it"
        if missing := places(self.english) - places(self.chinese):
            yield f"no link to {', '.join(sorted(missing))}"


def accepted(page: Page, name: str) -> str:
    """The translation with the code of the English page, stamped with its version."""
    blocks = iter(code_of(page.english))
    body = STAMP.sub("", page.chinese)
    if len(code_of(body)) != len(code_of(page.english)):
        raise ValueError(
            f"{name}: {len(code_of(body))} blocks of code, in English {len(code_of(page.english))}"
        )
    body = FENCE.sub(lambda _: next(blocks), body)
    return f"<!-- translation of {name} at {version_of(page.english)} -->\n{body}"


def judge(docs: Path) -> tuple[list[str], list[str]]:
    """What is wrong, and the pages whose translation is behind or missing."""
    wrong, behind = [], []
    for source in english_pages(docs):
        translation, shown = translation_of(source), source.relative_to(docs).as_posix()
        if not translation.exists():
            behind.append(shown)
            continue
        page = Page(source.read_text(), translation.read_text())
        if page.behind and STAMP.match(page.chinese):
            behind.append(shown)  # its structure may lawfully be that of the version it translates
        else:
            name = translation.relative_to(docs).as_posix()
            wrong += [f"{name}: {fault}" for fault in page.faults()]
    for translation in sorted(docs.glob(f"**/*{SUFFIX}")):
        if not source_of(translation).exists():
            wrong.append(f"{translation.relative_to(docs)}: there is no English page of this name")
    return wrong, behind


def main(root: Path, arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--strict", action="store_true", help="fail when a page is behind")
    parser.add_argument("--accept", nargs="+", type=Path, default=[], metavar="PAGE")
    asked = parser.parse_args(arguments)
    docs = root / "docs"
    for given in asked.accept:
        path = root / given
        if not path.name.endswith(SUFFIX) or not path.exists() or not source_of(path).exists():
            parser.error(f"{given} is no translation: it has to exist and to be named like page{SUFFIX}")
        page = Page(source_of(path).read_text(), path.read_text())
        try:
            path.write_text(accepted(page, source_of(path).name))
        except ValueError as error:
            parser.error(str(error))
    wrong, behind = judge(docs)
    sys.stdout.writelines(f"{fault}\n" for fault in wrong)
    for name in behind:
        translation = translation_of(docs / name)
        stamp = STAMP.match(translation.read_text()) if translation.exists() else None
        seen = f"behind; see `git diff {stamp['version']} HEAD:docs/{name}`" if stamp else "missing"
        sys.stdout.write(f"{name}: the translation is {seen}\n")
    pages = len(english_pages(docs))
    sys.stdout.write(f"{pages} pages, {len(wrong)} faults, {len(behind)} behind\n")
    return 1 if wrong or (asked.strict and behind) else 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), sys.argv[1:]))
