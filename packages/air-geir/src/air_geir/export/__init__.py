"""Models as files: `.air` with its weights, for `atc` or a GE session on another machine."""

from __future__ import annotations

from air_geir.export._as_data import Converted, as_data
from air_geir.export._export import Exported, dynamo_export
from air_geir.export._relation import model_relation, numa

__all__ = ["Converted", "Exported", "as_data", "dynamo_export", "model_relation", "numa"]
