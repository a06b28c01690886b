"""What every package says of the project, in one place: addresses, licence, versions, changelogs.

    python -m house.project                                     what does not agree
    python -m house.project --publishable                       and whether the addresses are real ones
    python -m house.project --move SITE REPOSITORY              writes other addresses everywhere

The addresses below are placeholders of a domain that is reserved for examples, until the project has its own: nothing
is published with them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import tomllib
from packaging.version import InvalidVersion, Version

from house.faults import told
from house.files import tracked

SITE: Final = "https://example.org/air/"
REPOSITORY: Final = "https://example.org/air/source"
PLACEHOLDER: Final = "example.org/air"
VERSION: Final = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.MULTILINE)
SECTION: Final = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
TITLE: Final = re.compile(r"(?P<version>\d+\.\d+\.\d+) - (?P<date>\d{4}-\d{2}-\d{2})")
UNRELEASED: Final = "Unreleased"
NAMED_SITE: Final = re.compile(r'^SITE: Final = "([^"]+)"$', re.MULTILINE)
CITED: Final = re.compile(r"^version: (?P<version>\S+)$", re.MULTILINE)


def urls(package: str) -> dict[str, str]:
    """The addresses that a package names on an index."""
    return {
        "Homepage": SITE,
        "Documentation": SITE,
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/main/packages/{package}/CHANGELOG.md",
    }


def version_of(package: Path) -> str:
    """The version that the sources of a package give themselves."""
    (file,) = package.glob("src/*/_version.py")
    match = VERSION.search(file.read_text())
    if match is None:
        raise ValueError(f"{file}: no line __version__ = ...")
    return match["version"]


def _released(title: str) -> Version | None:
    """The version that the title of a section names, where it names one with a day."""
    match = TITLE.fullmatch(title)
    if match is None:
        return None
    try:
        date.fromisoformat(match["date"])
        return Version(match["version"])
    except (InvalidVersion, ValueError):
        return None


def of_changelog(text: str, version: str) -> Iterator[str]:
    """What is wrong with a changelog of a package of this version: titles, their order, and what is below them."""
    if not text.startswith("# Changelog"):
        yield "the first line is no title '# Changelog'"
    titles = [match["title"] for match in SECTION.finditer(text)]
    bodies = SECTION.split(text)[2::2]
    seen: list[Version] = []
    for title, body in zip(titles, bodies, strict=True):
        lines = [line for line in body.splitlines() if line]
        if wrong := [line for line in lines if not re.match(r"[-*] |  \S|### ", line)]:
            yield f"{title}: neither an entry nor the next line of one: {wrong[0]!r}"
        if title == UNRELEASED and not seen:
            continue
        found = _released(title)
        if found is None:
            yield f"'## {title}' is neither '## {UNRELEASED}' on top nor '## <version> - <year>-<month>-<day>'"
            continue
        if seen and found >= seen[-1]:
            yield f"{found} stands below {seen[-1]}"
        seen.append(found)
        if not lines:
            yield f"{title}: says nothing"
    if not seen or seen[0] != Version(version):
        yield f"the newest release is {seen[0] if seen else 'none'}, the package says {version}"


def of_package(package: Path, licence: str) -> Iterator[str]:
    """What is wrong with one package."""
    project: dict[str, Any] = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    if project.get("urls") != urls(package.name):
        yield f"pyproject.toml: [project.urls] should be {urls(package.name)}"
    if project.get("license") != "Apache-2.0" or project.get("license-files") != ["LICENSE"]:
        yield 'pyproject.toml: license = "Apache-2.0" and license-files = ["LICENSE"]'
    for field in ("description", "keywords", "classifiers", "authors", "readme"):
        if not project.get(field):
            yield f"pyproject.toml: no {field}"
    file = package / "LICENSE"
    if not file.exists() or file.read_text() != licence:
        yield "LICENSE is not that of the repository; copy it"
    version = version_of(package)
    yield from (
        f"CHANGELOG.md: {fault}" for fault in of_changelog((package / "CHANGELOG.md").read_text(), version)
    )


def faults(root: Path, publishable: bool = False) -> Iterator[str]:
    """What does not agree in the repository."""
    licence = (root / "LICENSE").read_text()
    if "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" not in licence:
        yield "LICENSE: not the whole text of the Apache License 2.0"
    packages = sorted(path.parent for path in root.glob("packages/*/pyproject.toml"))
    for package in packages:
        yield from (f"{package.name}: {fault}" for fault in of_package(package, licence))
    site = (root / "mkdocs.yml").read_text()
    for line in (f"site_url: {SITE}", f"repo_url: {REPOSITORY}"):
        if line not in site.splitlines():
            yield f"mkdocs.yml: no line '{line}'"
    for path in sorted(root.glob("packages/*/src/**/*.py")):
        wrong = {found for found in NAMED_SITE.findall(path.read_text()) if found != SITE}
        yield from (
            f"{path.relative_to(root)}: its SITE is {found}, should be {SITE}" for found in sorted(wrong)
        )
    cited = CITED.search((root / "CITATION.cff").read_text())
    backend = version_of(root / "packages/air-backend")
    if cited is None or cited["version"] != backend:
        yield f"CITATION.cff: its version should be {backend}"
    if publishable and PLACEHOLDER in SITE + REPOSITORY:
        yield f"the addresses of the project are placeholders ({SITE}); see python -m house.project --move"


def move(root: Path, site: str, repository: str) -> int:
    """Writes other addresses in the place of these, everywhere; how many files were changed."""
    changed = 0
    for path in tracked(root):
        try:
            before = path.read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        after = before.replace(REPOSITORY, repository.rstrip("/")).replace(SITE, site.rstrip("/") + "/")
        if after != before:
            path.write_text(after)
            changed += 1
    return changed


def main(root: Path, arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--publishable", action="store_true")
    parser.add_argument("--move", nargs=2, metavar=("SITE", "REPOSITORY"))
    asked = parser.parse_args(arguments)
    if asked.move:
        if wrong := [given for given in asked.move if not given.startswith("https://")]:
            parser.error(f"{wrong[0]} is no address: it has to begin with https://")
        sys.stdout.write(f"{move(root, *asked.move)} files changed\n")
        return 0
    return told(faults(root, asked.publishable))


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), sys.argv[1:]))
