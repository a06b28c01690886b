"""Addresses of pages: one root, and the version of this release."""

from __future__ import annotations

from air_config import __version__
from air_config.published import SITE, document


def test_a_page_lies_under_the_version() -> None:
    assert document("reference/config") == f"{SITE}{__version__}/reference/config/"
    assert SITE.startswith("https://")
    assert SITE.endswith("/")
