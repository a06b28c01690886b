"""Kernels that Inductor generates, inside our captures: `air.kernels = "inductor"`."""

from __future__ import annotations

from air_aclgraph.fused._generator import refuse_absent
from air_aclgraph.fused._region import Ground, Region
from air_aclgraph.fused._regions import Fused, fuse

__all__ = ["Fused", "Ground", "Region", "fuse", "refuse_absent"]
