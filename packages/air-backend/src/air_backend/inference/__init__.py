"""Functions of TorchAir's `torchair.inference`: declared sizes of dynamic dimensions."""

from __future__ import annotations

from air_geir.gears import set_dim_gears

__all__ = ["set_dim_gears"]
