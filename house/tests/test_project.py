"""What packages say of the project agrees, and each thing that does not is told."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from house import project
from house.project import of_changelog

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("LICENSE", "mkdocs.yml", "CITATION.cff")
PACKAGE = "packages/air-config"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that name the project, and one more package than the one that carries the cited version."""
    for name in KEPT:
        shutil.copy(ROOT / name, tmp_path / name)
    for package in ("air-config", "air-backend"):
        folder = tmp_path / "packages" / package
        folder.mkdir(parents=True)
        for file in ("pyproject.toml", "CHANGELOG.md", "LICENSE"):
            shutil.copy(ROOT / "packages" / package / file, folder / file)
        inside = folder / "src" / package.replace("-", "_")
        inside.mkdir(parents=True)
        shutil.copy(ROOT / "packages" / package / "src" / inside.name / "_version.py", inside / "_version.py")
    return tmp_path


def test_the_repository_agrees_with_itself() -> None:
    assert list(project.faults(ROOT)) == []


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("LICENSE", "TERMS AND CONDITIONS", "terms", "not the whole text"),
        (f"{PACKAGE}/LICENSE", "Apache", "Other", "LICENSE is not that of the repository"),
        (f"{PACKAGE}/pyproject.toml", "CHANGELOG.md", "NEWS.md", "[project.urls] should be"),
        (f"{PACKAGE}/pyproject.toml", 'license-files = ["LICENSE"]', "", "license-files"),
        (f"{PACKAGE}/pyproject.toml", "keywords", "words", "no keywords"),
        (f"{PACKAGE}/src/air_config/_version.py", '"0.2', '"9.2', "the newest release is"),
        ("mkdocs.yml", "site_url: https://", "site_url: http://", "mkdocs.yml: no line"),
        ("CITATION.cff", "version: 0.", "version: 7.", "CITATION.cff"),
    ],
)
def test_what_does_not_agree_is_told(copy: Path, file: str, before: str, after: str, said: str) -> None:
    path = copy / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    assert any(said in fault for fault in project.faults(copy)), list(project.faults(copy))


def test_another_site_in_the_sources_is_told(copy: Path) -> None:
    module = copy / PACKAGE / "src/air_config/errors.py"
    module.write_text(f'SITE: Final = "{project.SITE}"\n')
    assert list(project.faults(copy)) == []
    module.write_text('SITE: Final = "https://example.org/other/"\n')
    assert any("its SITE is https://example.org/other/" in fault for fault in project.faults(copy))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Changelog\n\n## 0.2.0 - 2026-01-31\n\n- A line\n  and its rest.\n", ""),
        ("# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-01-31\n\n- A line.\n", ""),
        ("# Changelog\n\n## 0.2.0 - 2026-01-31\n\n- A.\n\n## 0.1.0 - 2025-01-31\n\n- B.\n", ""),
        ("# News\n\n## 0.2.0 - 2026-01-31\n\n- A.\n", "no title"),
        ("# Changelog\n\n## 0.2.0 (unreleased)\n\n- A.\n", "is neither"),
        ("# Changelog\n\n## 0.2.0 - 2026-13-31\n\n- A.\n", "is neither"),
        ("# Changelog\n\n## 0.2.0 - 2026-01-31\n", "says nothing"),
        ("# Changelog\n\n## 0.2.0 - 2026-01-31\n\nProse.\n", "neither an entry"),
        ("# Changelog\n\n## 0.1.0 - 2026-01-31\n\n- A.\n", "the package says 0.2.0"),
        ("# Changelog\n\n## 0.2.0 - 2026-01-31\n\n- A.\n\n## 0.3.0 - 2026-01-31\n\n- B.\n", "stands below"),
    ],
)
def test_a_changelog_has_releases_in_order_with_dates_and_entries(text: str, said: str) -> None:
    found = list(of_changelog(text, "0.2.0"))
    assert any(said in fault for fault in found) if said else found == []


def test_placeholders_are_not_published(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not list(project.faults(copy))
    (fault,) = project.faults(copy, publishable=True)
    assert "placeholders" in fault


@pytest.fixture
def moved(copy: Path) -> Callable[[str, str], int]:
    subprocess.run(["git", "init", "-q", str(copy)], check=True)
    return lambda site, repository: project.main(copy, ["--move", site, repository])


def test_the_addresses_are_written_everywhere(copy: Path, moved: Callable[[str, str], int]) -> None:
    assert moved("https://air.example.net", "https://code.example.net/air") == 0
    written = (copy / PACKAGE / "pyproject.toml").read_text() + (copy / "mkdocs.yml").read_text()
    assert "example.org" not in written
    assert "site_url: https://air.example.net/\n" in written
    assert 'Issues = "https://code.example.net/air/issues"' in written


def test_an_address_without_a_scheme_is_a_usage_error(moved: Callable[[str, str], int]) -> None:
    with pytest.raises(SystemExit) as stopped:
        moved("air.example.net", "https://code.example.net/air")
    assert stopped.value.code == 2
