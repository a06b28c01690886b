"""The link rules find dead links and leave live ones alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from house import links


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "other.md").write_text("# Other page\n\n## A `heading` here\n")
    return tmp_path


@pytest.mark.parametrize(
    ("link", "code"),
    [
        ("[x](other.md)", 0),
        ("[x](other.md#other-page)", 0),
        ("[x](other.md#a-heading-here)", 0),
        ("[x](https://example.org/nowhere)", 0),
        ("`[x](missing.md)`", 0),
        ("[x](missing.md)", 1),
        ("[x](other.md#missing)", 1),
    ],
)
def test_a_link_must_lead_somewhere(documents: Path, link: str, code: int) -> None:
    (documents / "page.md").write_text(f"see {link}\n")
    assert links.main(documents) == code
