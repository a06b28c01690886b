"""The `air` command: doctor, demo, run, explain, bisect, new-pass, new-converter, completion; bench in a checkout."""

from __future__ import annotations

from air_backend.cli._main import main

__all__ = ["main"]
