"""Makes collectives part of graphs when it is imported: `patch_for_hcom()` does the same."""

from __future__ import annotations

from air_backend._collectives import patch_for_hcom

patch_for_hcom()
