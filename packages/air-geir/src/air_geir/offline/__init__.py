"""Offline models: `atc` makes them of `.air` files, and `load_om` runs them, without `torch.compile` in the process.

air = air_backend.dynamo_export(x, model=model, export_path="out").model
model = load_om(compile_air(air, "out/classifier"))
(y,) = model(x)
"""

from __future__ import annotations

from air_geir.offline._atc import compile_air, missing_program
from air_geir.offline._model import OfflineModel, Port, load_om
from air_geir.offline._pyacl import missing_module, soc_name

__all__ = [
    "OfflineModel",
    "Port",
    "compile_air",
    "load_om",
    "missing_module",
    "missing_program",
    "soc_name",
]
