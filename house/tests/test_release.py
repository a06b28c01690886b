"""What is published has its licence, its addresses and links that work; what has not is told."""

from __future__ import annotations

import hashlib
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from house import release
from house.project import REPOSITORY

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One package of the repository, built as for a release."""
    root = tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT / "packages/air-config", root / "packages/air-config", ignore=release.LEFT_OUT)
    release.build(root)
    return root


def test_a_link_of_a_readme_becomes_one_to_the_repository(tmp_path: Path) -> None:
    folder = tmp_path / "packages/air-x"
    text = "[a](../../docs/a.md#b) [c](https://example.org/c) [d](#d) `[e](e.md)`"
    assert release.for_an_index(text, folder, tmp_path) == (
        f"[a]({REPOSITORY}/blob/main/docs/a.md#b) [c](https://example.org/c) [d](#d) `[e](e.md)`"
    )


def test_what_is_built_has_licence_addresses_and_tests(built: Path) -> None:
    assert list(release.check(built)) == []
    assert len(list((built / "dist").iterdir())) == 2


@pytest.mark.parametrize(
    ("inside", "before", "after", "said"),
    [
        ("/LICENSE", "TERMS AND CONDITIONS", "", "the text of the licence is not in it"),
        ("/METADATA", "Version: ", "Version: 9", "its version is 9"),
        ("/METADATA", "Project-URL: Source", "Project-URL: Other", "its addresses are"),
        ("/METADATA", f"]({REPOSITORY}/blob/main/README.md)", "](../README.md)", "leads nowhere on an index"),
        ("/py.typed", "", None, "no py.typed"),
    ],
)
def test_a_wheel_that_lacks_something_is_told(
    built: Path, tmp_path: Path, inside: str, before: str, after: str | None, said: str
) -> None:
    (wheel,) = (built / "dist").glob("*.whl")
    spoilt = tmp_path / wheel.name
    touched = False
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(spoilt, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith(inside):
                touched = after is None or before.encode() in data
                if after is None:
                    continue
                data = data.replace(before.encode(), after.encode())
            new.writestr(name, data)
    assert touched, f"nothing to spoil in {inside}"
    assert any(said in fault for fault in release.of_wheel(spoilt, built / "packages/air-config"))


def test_a_package_that_was_not_built_is_told(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built / "packages", tmp_path / "packages")
    (tmp_path / "dist").mkdir()
    (fault,) = release.check(tmp_path)
    assert "has not one wheel and one sdist" in fault


def test_sums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / "SHA256SUMS").write_text("old")
    assert release.sums(tmp_path) == f"{hashlib.sha256(b'a').hexdigest()}  a.whl\n"


def test_pins_are_what_is_installed_with_all_that_it_needs() -> None:
    found = dict(line.split("==") for line in release.pins(["pytest"]))
    assert {"pytest", "pluggy", "packaging"} <= set(found)
    assert sys.version_info >= (3, 11) or "exceptiongroup" in found
