"""Where the documentation is published: errors link there, because wheels have no pages."""

from __future__ import annotations

from typing import Final

from air_config._version import __version__

__all__ = ["SITE", "document"]

SITE: Final = "https://example.org/air/"
"""The root of the site; pages of each release lie under its version."""


def document(page: str) -> str:
    """The address of a page (`accuracy`, `reference/config`) as it was for this release."""
    return f"{SITE}{__version__}/{page}/"
