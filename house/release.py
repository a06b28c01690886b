"""Builds what is published, and looks into it.

    python -m house.release build        sdists and wheels of every package, in dist/
    python -m house.release check        what is inside: licence, addresses, links that work outside of the repository
    python -m house.release pins         the packages, and all that they need, with the versions of this environment
    python -m house.release sums         dist/SHA256SUMS

A README of the repository links to its neighbours. On an index there are none, so a package is built from a copy whose
README links to the repository.
"""

from __future__ import annotations

import argparse
import email.message
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from email.parser import Parser
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from house.faults import told
from house.links import LINK, OUTSIDE
from house.project import REPOSITORY, urls, version_of
from house.site import FENCED

LEFT_OUT: Final = shutil.ignore_patterns(
    "__pycache__", "*.egg-info", ".hypothesis", ".pytest_cache", "build", "dist"
)
ROOTS: Final = ("air-backend", "air-sim")
TEXT_OF_THE_LICENCE: Final = "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"


def packages(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("packages/*/pyproject.toml"))


def for_an_index(readme: str, folder: Path, root: Path) -> str:
    """A README whose links to files of the repository are addresses."""
    parts = FENCED.split(readme)
    for at in range(0, len(parts), 2):
        for match in LINK.finditer(parts[at]):
            target = match["target"]
            if OUTSIDE.match(target) or target.startswith("#"):
                continue
            inside = os.path.relpath(os.path.normpath(folder / target), root)
            parts[at] = parts[at].replace(f"]({target})", f"]({REPOSITORY}/blob/main/{inside})")
    return "".join(parts)


def build(root: Path) -> None:
    """Fills dist/ with an sdist and a wheel of every package."""
    dist, staged = root / "dist", root / "build/release"
    shutil.rmtree(dist, ignore_errors=True)
    shutil.rmtree(staged, ignore_errors=True)
    dist.mkdir()
    for package in packages(root):
        copy = staged / package.name
        shutil.copytree(package, copy, ignore=LEFT_OUT)
        readme = copy / "README.md"
        readme.write_text(for_an_index(readme.read_text(), package, root))
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(dist)]
        subprocess.run(command, cwd=copy, check=True, stdout=subprocess.DEVNULL)


def metadata_of(wheel: Path) -> tuple[email.message.Message, list[str], str]:
    """The metadata of a wheel, the names of its files, and the text of its licence."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        licences = [name for name in names if name.endswith("LICENSE")]
        text = archive.read(licences[0]).decode() if licences else ""
        return Parser().parsestr(archive.read(metadata).decode()), names, text


def of_wheel(wheel: Path, package: Path) -> Iterator[str]:
    """What is wrong with a wheel."""
    metadata, names, licence = metadata_of(wheel)
    if TEXT_OF_THE_LICENCE not in licence:
        yield "the text of the licence is not in it"
    if metadata["Version"] != version_of(package):
        yield f"its version is {metadata['Version']}, the sources say {version_of(package)}"
    listed = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    if listed != urls(package.name):
        yield f"its addresses are {listed}"
    text = str(metadata.get_payload())
    prose = "".join(FENCED.split(text)[::2])
    for match in LINK.finditer(prose):
        if not OUTSIDE.match(match["target"]) and not match["target"].startswith("#"):
            yield f"a link of its page leads nowhere on an index: {match['target']}"
    if not any(name.endswith("/py.typed") for name in names):
        yield "it says that it is typed, and has no py.typed"
    if stray := [name for name in names if name.startswith(("tests/", "docs/")) or "__pycache__" in name]:
        yield f"does not belong in it: {stray[0]}"


def of_sdist(sdist: Path) -> Iterator[str]:
    """What an sdist lacks."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in ("LICENSE", "CHANGELOG.md", "README.md", "pyproject.toml", "PKG-INFO"):
        if wanted not in names:
            yield f"{wanted} is not in it"
    if not any(name.startswith("tests/") for name in names):
        yield "no test is in it"


def check(root: Path) -> Iterator[str]:
    """What is wrong with what lies in dist/."""
    for package in packages(root):
        stem = f"{package.name.replace('-', '_')}-{version_of(package)}"
        wheels = sorted((root / "dist").glob(f"{stem}-*.whl"))
        sdist = root / "dist" / f"{stem}.tar.gz"
        if len(wheels) != 1 or not sdist.exists():
            yield f"{package.name}: dist/ has not one wheel and one sdist of {stem}"
            continue
        yield from (f"{wheels[0].name}: {fault}" for fault in of_wheel(wheels[0], package))
        yield from (f"{sdist.name}: {fault}" for fault in of_sdist(sdist))


def pins(roots: Sequence[str] = ROOTS) -> list[str]:
    """What is installed here of the packages and of all that they need, as requirements with versions."""
    found: dict[str, str] = {}
    waiting = [(name, "") for name in roots]
    while waiting:
        name, extra = waiting.pop()
        if canonicalize_name(name) in found and not extra:
            continue
        distribution = importlib.metadata.distribution(name)
        found[canonicalize_name(name)] = distribution.version
        for text in distribution.requires or ():
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                waiting.append((need.name, ""))
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def sums(dist: Path) -> str:
    """The digests of what lies in dist/, as `sha256sum --check` reads them."""
    files = sorted(path for path in dist.iterdir() if path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def main(root: Path, arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("build", "check", "pins", "sums"))
    what = parser.parse_args(arguments).what
    if what == "build":
        build(root)
    elif what == "check":
        return told(check(root))
    elif what == "pins":
        sys.stdout.writelines(f"{line}\n" for line in pins())
    else:
        (root / "dist/SHA256SUMS").write_text(sums(root / "dist"))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), sys.argv[1:]))
