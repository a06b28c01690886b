"""TorchAir's `torchair.experimental`: where the functions for internal formats live."""

from __future__ import annotations

from air_backend.experimental import inference

__all__ = ["inference"]
