"""The `air` command: doctor, demo, run, explain, bisect, bench."""

from __future__ import annotations

from air_backend.cli._main import main

__all__ = ["main"]
