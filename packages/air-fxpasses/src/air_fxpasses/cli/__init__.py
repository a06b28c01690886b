"""The `air-passes` command."""

from __future__ import annotations

from air_fxpasses.cli._main import main

__all__ = ["main"]
