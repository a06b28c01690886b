"""The page of `explain`: what was decided in one compilation."""

from __future__ import annotations

from air_backend.report._page import page_of
from air_backend.report._watch import Watch, watch_of, watching

__all__ = ["Watch", "page_of", "watch_of", "watching"]
