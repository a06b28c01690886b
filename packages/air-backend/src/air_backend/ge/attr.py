"""Attribute values with their kind, as a module: `from torchair.ge.attr import Int`."""

from __future__ import annotations

from air_geir.ge.attr import *  # noqa: F403  # the same names
from air_geir.ge.attr import __all__ as __all__
