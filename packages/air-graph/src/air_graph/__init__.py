"""What everybody asks about an FX graph: effects, memory, lines, order."""

from __future__ import annotations

from air_graph._version import __version__

__all__ = ["__version__"]
