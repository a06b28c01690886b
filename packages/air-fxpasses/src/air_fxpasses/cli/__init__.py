"""What the `air-passes` command does; `air_passes` beside this package reads its words without importing torch."""

from __future__ import annotations

from air_fxpasses.cli._main import execute

__all__ = ["execute"]
